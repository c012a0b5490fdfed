"""`scripts/setup`, with stand-ins for Python, uv and colcon: what it does again, and when."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 30.0  # s

# One stand-in for all: it notes what it was called for, and leaves what the real one would.
STAND_IN = """#!/usr/bin/env bash
case "$*" in
  *"-I -S -c"*) exit 0 ;;
  *"-I -c"*) echo "3.11 $FAKES/python" ;;
  *"-m venv"*)
    echo venv >>$FAKES/calls
    mkdir -p "${@: -1}/bin" "${@: -1}/lib/python3.11/site-packages/numpy"
    cp "$FAKES/python" "${@: -1}/bin/python" ;;
  *"-m pip install"*)
    echo "${PYTHONPATH-none}" >$FAKES/pythonpath
    cp "$FAKES/python" "${0%/*}/uv" ;;
  *"-m pip config list"*) cat $FAKES/pip.list ;;
  *"-m pip config"*) exit 1 ;;
  *"pip sync"*)
    echo "${UV_DEFAULT_INDEX-none} ${UV_INDEX-none} ${SSL_CERT_FILE-none}" >$FAKES/trusted
    echo sync >>$FAKES/calls ;;
  *"pip install --python"*) echo devs >>$FAKES/calls ;;
  *_mend_wheels*) echo mend >>$FAKES/calls ;;
  *"-m colcon"*)
    echo "$AMENT_PREFIX_PATH" >$FAKES/underlay
    mkdir -p build/some_package install/some_package
    touch install/setup.bash
    echo colcon >>$FAKES/calls
    if [ -e $FAKES/fail ]; then echo the reason why; exit 1; fi
    while [ -e $FAKES/hang ]; do sleep 0.05; done ;;
esac
"""
ALL = ["venv", "sync", "mend", "colcon"]
TRUST = {
    *(
        "UV_DEFAULT_INDEX",
        "UV_INDEX_URL",
        "UV_INDEX",
        "UV_EXTRA_INDEX_URL",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
    ),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "PIP_CONFIG_FILE"),
}


class Workspace:
    """A copy of the scripts beside one small package."""

    def __init__(self, tmp_path):
        self.root = tmp_path / "workspace"
        self.fakes = tmp_path / "fakes"
        self.fakes.mkdir()
        self.calls = self.fakes / "calls"
        self.write("src/some_package/package.xml", "<package><name>some_package</name></package>")
        self.write("src/some_package/msg/A.msg", "bool a")
        self.write("src/some_package/some_package/a.py", "")
        self.write("launch/a.launch.py", "")
        self.write("config/a.yaml", "")
        self.write("requirements/lock.txt", "uv==1 \\\n    --hash=sha256:0\n")
        self.write("requirements/lock-devs.txt", "xdevs==1 \\\n    --hash=sha256:0\n")
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        for name in ["python", "cmake", "g++", "make"]:
            (self.fakes / name).write_text(STAND_IN)
            (self.fakes / name).chmod(0o755)
        (self.fakes / "pip.list").touch()
        self.user = []
        mine = {"ROS_DISTRO", "SWARMBED_PYTHON", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", *TRUST}
        self.env = {name: value for name, value in os.environ.items() if name not in mine}
        self.env |= {
            "FAKES": str(self.fakes),
            "PATH": f"{self.fakes}:/usr/bin:/bin",
            "SWARMBED_PYTHON": str(self.fakes / "python"),
            "SWARMBED_ROS_PREFIX": "/nonexistent",
        }

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def start(self, *options):
        return subprocess.Popen(
            [*self.user, self.root / "scripts/setup", *options],
            env=self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def setup(self, *options, code=0):
        """Run it; return what it did and what it said."""
        self.calls.write_text("")
        process = self.start(*options)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, said
        return self.calls.read_text().split(), said

    def wait_for(self, call):
        end = time.monotonic() + PATIENCE
        while call not in self.calls.read_text().split():
            assert time.monotonic() < end, f"{call} was not called"
            time.sleep(0.01)

    @property
    def is_ready(self):
        check = [self.root / "scripts/setup", "--check"]
        return subprocess.run(check, env=self.env, check=False, capture_output=True).returncode == 0


@pytest.fixture
def bare(tmp_path):
    return Workspace(tmp_path)


@pytest.fixture
def workspace(bare):
    assert bare.setup()[0] == ALL
    return bare


def test_check_says_whether_it_is_ready_and_changes_nothing(bare):
    assert bare.setup("--check", code=1)[0] == []
    assert not (bare.root / ".venv").exists()
    assert bare.setup()[0] == ALL
    assert bare.setup("--check")[0] == []


def test_the_second_time_nothing_is_done(workspace):
    done, said = workspace.setup()
    assert done == []
    assert "ready" in said
    assert workspace.setup("--quiet") == ([], "")


def test_force_does_everything_again(workspace):
    (workspace.root / "install/stale").mkdir()
    assert workspace.setup("--force")[0] == ALL
    assert not (workspace.root / "install/stale").exists()


def test_xdevs_is_installed_for_those_who_ask(workspace):
    """It is GPL-3."""
    assert workspace.setup("--check", "--devs", code=1)[0] == []
    assert workspace.setup("--devs")[0] == ["devs"]
    assert workspace.setup("--devs")[0] == []
    assert workspace.is_ready
    (workspace.root / "requirements/lock-devs.txt").write_text("xdevs==2 \\\n    --hash=sha256:1\n")
    assert not workspace.is_ready
    assert workspace.setup()[0] == ["devs"]
    (workspace.root / "requirements/lock.txt").write_text("uv==2 \\\n    --hash=sha256:1\n")
    assert workspace.setup()[0] == ["venv", "sync", "mend", "devs", "colcon"], "an update keeps it"
    assert workspace.setup("--force")[0] == ALL


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("requirements/lock.txt", ALL),
        ("scripts/_mend_wheels.py", ALL),
        ("src/some_package/package.xml", ["colcon"]),
        ("src/some_package/msg/A.msg", ["colcon"]),
        ("src/some_package/some_package/a.py", []),
        ("config/a.yaml", []),
    ],
)
def test_an_edit_repeats_what_depends_on_it(workspace, path, expected):
    with (workspace.root / path).open("a") as file:
        file.write("\n")
    assert workspace.setup()[0] == expected
    assert workspace.setup()[0] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/some_package/srv/B.srv", ["colcon"]),
        ("src/other_package/package.xml", ["colcon"]),
        ("launch/b.launch.xml", ["colcon"]),
        ("config/robots/b.yaml", ["colcon"]),
        ("src/some_package/some_package/b.py", []),
        ("src/some_package/__pycache__/a.pyc", []),
    ],
)
def test_a_new_file_repeats_what_depends_on_it(workspace, path, expected):
    workspace.write(path, "")
    assert workspace.setup()[0] == expected
    assert workspace.setup()[0] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".venv", ALL),
        (".venv/bin/python", ALL),
        (".venv/.ready", ["colcon"]),
        (".venv/.built", ["colcon"]),
        (".venv/.installed", ALL),
        ("build", ["colcon"]),
        ("build/some_package", ["colcon"]),
        ("install", ["colcon"]),
        ("install/some_package", ["colcon"]),
        ("install/setup.bash", ["colcon"]),
        (".venv/lib/python3.11/site-packages/numpy", ALL),
    ],
)
def test_what_is_lost_is_made_again(workspace, path, expected):
    path = workspace.root / path
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not workspace.is_ready
    assert workspace.setup()[0] == expected
    assert workspace.is_ready


def test_a_package_that_left_src_leaves_the_workspace(workspace):
    (workspace.root / "install/old_package").mkdir()
    (workspace.root / "build/old_package").mkdir()
    workspace.write("src/some_package/msg/A.msg", "bool b")
    assert workspace.setup()[0] == ["colcon"]
    assert not (workspace.root / "install/old_package").exists()
    assert not (workspace.root / "build/old_package").exists()


def test_a_moved_workspace_is_made_anew(workspace, tmp_path):
    workspace.root = workspace.root.rename(tmp_path / "moved")
    assert not workspace.is_ready
    assert workspace.setup()[0] == ALL
    assert workspace.is_ready


def test_a_path_that_the_tools_cannot_take_is_refused(bare, tmp_path):
    bare.root = bare.root.rename(tmp_path / "my robots")
    done, said = bare.setup(code=1)
    assert done == []
    assert "my robots' has a space or a colon in it" in said


@pytest.mark.parametrize("sourced", [False, True])
def test_a_full_ros_is_used(bare, sourced):
    ros = bare.root.parent / "jazzy"
    (ros / "lib/python3.11/site-packages/rclpy").mkdir(parents=True)
    (ros / "bin").mkdir()
    (ros / "bin/ros2").write_text("#!/bin/sh\n")
    (ros / "bin/ros2").chmod(0o755)
    (ros / "setup.bash").write_text(f"export ROS_DISTRO=jazzy AMENT_PREFIX_PATH={ros} PATH={ros}/bin:$PATH\n")
    bare.write("requirements/lock-full-ros.txt", "uv==1 \\\n    --hash=sha256:0\n")
    if sourced:
        bare.env |= {
            "ROS_DISTRO": "jazzy",
            "AMENT_PREFIX_PATH": "/x",
            "PATH": f"{ros}/bin:{bare.env['PATH']}",
        }
    else:
        bare.env["SWARMBED_ROS_PREFIX"] = str(ros)

    assert bare.setup()[0] == ["venv", "sync", "colcon"], "ROS's own wheels and their mending are not needed"
    assert (bare.fakes / "underlay").read_text() == f"{ros}\n"
    assert bare.setup()[0] == []


def test_a_shell_that_entered_another_workspace_makes_a_sound_one(bare):
    bare.env |= {"PYTHONPATH": "/elsewhere/site-packages", "AMENT_PREFIX_PATH": "/elsewhere/install"}
    bare.setup()
    assert (bare.fakes / "pythonpath").read_text().strip() == "none"
    assert (bare.fakes / "underlay").read_text().strip() == str(bare.root / ".venv")


def test_another_python_makes_it_anew(workspace):
    other = workspace.fakes / "python3.12"
    other.write_text(STAND_IN.replace("3.11 $FAKES/python", "3.12 $FAKES/python3.12"))
    other.chmod(0o755)
    workspace.env["SWARMBED_PYTHON"] = str(other)
    assert workspace.setup()[0] == ALL
    del workspace.env["SWARMBED_PYTHON"]
    assert workspace.setup()[0] == [], "without a wish the Python that is there stays"


@pytest.mark.parametrize(
    ("settings", "env", "trusted"),
    [
        ("", {}, "none none none"),
        ("global.cert='/a/global.pem'", {}, "none none /a/global.pem"),
        ("global.cert='/a/global.pem'\ninstall.cert='/an/install.pem'", {}, "none none /an/install.pem"),
        (":env:.cert='/an/env.pem'\ninstall.cert='/an/install.pem'", {}, "none none /an/env.pem"),
        ("global.cert='/a/global.pem'", {"SSL_CERT_FILE": "/mine.pem"}, "none none /mine.pem"),
        ("", {"REQUESTS_CA_BUNDLE": "/a/bundle.pem"}, "none none /a/bundle.pem"),
        (
            "global.extra-index-url='\\nhttps://b/simple\\nhttps://c/simple'\nglobal.index-url='https://a/simple'",
            {},
            "https://a/simple https://b/simple https://c/simple none",
        ),
    ],
)
def test_uv_trusts_and_asks_whom_pip_does(bare, settings, env, trusted):
    (bare.fakes / "pip.list").write_text(f"{settings}\n")
    bare.env |= env
    bare.setup()
    assert (bare.fakes / "trusted").read_text() == f"{trusted}\n"


@pytest.mark.parametrize("section", ["global", "install"])
def test_a_certificate_that_pips_own_get_does_not_see_is_found(tmp_path, section):
    """As in containers whose /etc/pip.conf names it: `pip config get` reads the user's file alone."""
    (tmp_path / "pip.conf").write_text(f"[{section}]\ncert = /an/authority.pem\n")
    env = {name: value for name, value in os.environ.items() if name not in TRUST}
    env |= {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PYTHON": sys.executable}
    script = f'. {ROOT}/scripts/_common.sh; use_pips_index "$PYTHON"; echo "$SSL_CERT_FILE"'
    found = subprocess.run(["bash", "-euc", script], env=env, check=True, capture_output=True, text=True)
    assert found.stdout == "/an/authority.pem\n"


def test_a_failure_shows_its_reason_last_and_is_not_trusted(bare):
    (bare.fakes / "fail").touch()
    done, said = bare.setup(code=1)
    assert done == ALL
    assert "the reason why" in said.splitlines()[-3]
    assert said.splitlines()[-1].startswith("scripts/setup failed: while: building")
    assert not bare.is_ready

    (bare.fakes / "fail").unlink()
    assert bare.setup()[0] == ["colcon"]


def test_a_killed_build_is_thrown_away(bare):
    (bare.fakes / "hang").touch()
    bare.calls.touch()
    process = bare.start()
    bare.wait_for("colcon")
    (bare.root / "build/some_package/half.o").touch()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not bare.is_ready

    (bare.fakes / "hang").unlink()
    assert bare.setup()[0] == ["colcon"]
    assert not (bare.root / "build/some_package/half.o").exists()
    assert bare.is_ready


def test_two_at_once_do_the_work_once(bare):
    (bare.fakes / "hang").touch()
    bare.calls.touch()
    first = bare.start()
    bare.wait_for("colcon")
    second = bare.start()
    assert "waiting" in second.stdout.readline()
    (bare.fakes / "hang").unlink()
    assert first.wait(PATIENCE) == 0
    assert second.wait(PATIENCE) == 0
    assert bare.calls.read_text().split() == ALL
    first.communicate()
    assert "ready" in second.communicate()[0]


def test_without_root_the_missing_packages_are_named(bare):
    tools = bare.root.parent / "tools"
    tools.mkdir()
    for name in [
        "bash",
        "env",
        "sed",
        "dirname",
        "mkdir",
        "flock",
        "uname",
        "rm",
        "tail",
        "grep",
        "sort",
        "xargs",
    ]:
        (tools / name).symlink_to(shutil.which(name))
    for name in ["find", "sha256sum", "cat"]:
        (tools / name).symlink_to(shutil.which(name))
    for name, text in {"id": "echo 1000", "apt-get": "exit 99"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for name in ["g++", "make"]:
        (bare.fakes / name).unlink()
    bare.env["PATH"] = f"{bare.fakes}:{tools}"

    done, said = bare.setup(code=1)

    assert done == []
    assert "sudo apt-get install -y --no-install-recommends g++ make" in said
    assert not bare.is_ready


@pytest.fixture
def owned_by_root():
    """Return a workspace of another user, which everybody may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        made = Workspace(Path(name))
        made.setup()
        if os.getuid() == 0:
            made.user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        else:
            made.root.chmod(0o555)
        yield made
        made.root.chmod(0o755)


def test_another_user_uses_what_its_owner_set_up(owned_by_root):
    # A Gazebo in the owner's home is not in the user's.
    owned_by_root.env["HOME"] = "/nonexistent"
    assert owned_by_root.setup("--quiet") == ([], "")


def test_another_user_is_told_who_can_set_it_up(owned_by_root):
    (owned_by_root.root / "src/some_package/msg/A.msg").write_text("bool b")
    done, said = owned_by_root.setup(code=1)
    assert done == []
    first, second = said.splitlines()
    assert re.fullmatch(
        r"scripts/setup: the workspace is not ready, and \w+ cannot write to /.*/workspace\.", first
    )
    assert re.fullmatch(
        r"Run scripts/setup as its owner \w+, or use your own copy of the workspace\.", second
    )


def test_a_useless_python_is_refused(bare):
    bare.env["SWARMBED_PYTHON"] = "/bin/false"
    assert "SWARMBED_PYTHON=/bin/false is not a CPython 3.11 or 3.12" in bare.setup(code=1)[1]
