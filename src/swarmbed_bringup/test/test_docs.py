"""What README and docs/ show works: their programs run, their commands and files exist."""

import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FOLLOWED = {
    "tutorial.md": ["curious.py", "curious.yaml"],
    "frame_parts.md": ["my_parts.py", "herd.yaml"],
    "own_package.md": ["pyproject.toml", "my_swarm.py"],
    "reality.md": ["elsewhere.yaml", "my_robot.py", "seen.yaml", "tracker.py"],
    "reference/run_files.md": [],
}
"""Pages that are followed from top to bottom, with the files that they have one save."""
BLOCK = re.compile(r"(?:as\s+`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{i}")
    for page in PAGES
    if page not in {DOCS / name for name in FOLLOWED}
    for i, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    )
]


def run(command, folder):
    """Run a command as a reader would, and return what it prints."""
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def run_program(program, folder):
    (folder / "program.py").write_text(program)
    said = run([sys.executable, "program.py"], folder)
    assert said.strip()
    assert "nan" not in said


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run_and_say_something(program, tmp_path):
    if "xdevs" in program:
        pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")
    run_program(program, tmp_path)


def register(folder):
    """Do what pip does for entry points, for it would have to change this environment."""
    about = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    lines = [
        line
        for group, points in about["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {what}" for name, what in points.items()))
    ]
    made = folder / f"{about['name']}-{about['version']}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Name: {about['name']}\nVersion: {about['version']}\n")
    (made / "entry_points.txt").write_text("\n".join(lines))


def run_command(command, patch):
    """Run a command of `swarmbed` in this process, which takes a fraction of the time that a new one does."""
    words = shlex.split(command)
    expected = 0
    if words[-5:-1] == ["||", "test", "$?", "="]:
        words, expected = words[:-5], int(words[-1])
    assert words[0] == "swarmbed", command
    patch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        sys.exit(cli.main())
    assert (ended.value.code or 0) == expected, command


class Terminal:
    """A second terminal, in which one server runs at a time."""

    def __init__(self):
        self.process = None

    def start(self, command):
        """Start a server, and wait until it says that it is ready."""
        self.close()
        self.process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline(), command

    def close(self):
        """Press Ctrl-C."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.communicate(timeout=20)
            self.process = None


SERVERS = ("swarmbed part-server ", "python ")
"""Commands of a second terminal."""


@pytest.fixture
def follow(tmp_path, monkeypatch, capsys):
    """Return what saves the files of a page, and runs its programs and commands one after the other."""

    terminal = Terminal()

    def follow(name, shorter=()):
        saved = []
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        page = (DOCS / name).read_text()
        # Ports of this machine may be taken by another run of this test.
        page = page.replace("udp://127.0.0.1:74{number:02}", f"unix://{tmp_path}/{{name}}.sock")
        page = page.replace("udp://127.0.0.1:7401", f"unix://{tmp_path}/dots1.sock")
        for command, more in shorter:
            assert f"\n{command}\n" in page
            page = page.replace(f"\n{command}\n", f"\n{command} {more}\n")
        for file, kind, block in BLOCK.findall(page):
            if file:
                saved.append(file)
                (tmp_path / file).write_text(block)
                if file == "pyproject.toml":
                    register(tmp_path)
            elif kind == "python":
                capsys.readouterr()
                (tmp_path / "program.py").write_text(block)
                runpy.run_path("program.py", run_name="__main__")
                assert capsys.readouterr().out.strip()
            for command in block.splitlines() if kind == "sh" else ():
                if command.startswith(SERVERS):
                    terminal.start(command)
                elif command.startswith("swarmbed up "):
                    # It starts processes, and waits for signals.
                    run(shlex.split(command), tmp_path)
                else:
                    run_command(command, monkeypatch)
        assert saved == FOLLOWED[name]

    yield follow
    terminal.close()
    # Other tests of this process look at what is imported.
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_command_is_on_the_path(tmp_path):
    assert "One swarm program, every reality" in run(["swarmbed", "--help"], tmp_path)


@pytest.mark.timeout(400)
def test_the_tutorial_can_be_followed(follow, tmp_path):
    follow("tutorial.md")
    assert (tmp_path / "reference.png").stat().st_size > 10_000
    assert list(tmp_path.glob("runs/curious-*/tracks.png"))
    assert (tmp_path / "sweeps/curious/sweep.json").exists()


def test_frame_parts_of_ones_own(follow, tmp_path):
    follow("frame_parts.md")
    found = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("runs/herd-*/summary.json"))]
    assert sorted(each["verdict"] for each in found) == ["accepted", "rejected"]
    [accepted] = [each for each in found if each["verdict"] == "accepted"]
    assert accepted["metrics"]["spread_most"] > 0.1
    [rejected] = [each for each in found if each["verdict"] == "rejected"]
    assert "m off after" in rejected["reason"]


DEVICE = """
from swarmbed_core.robot import Command
from swarmbed_core.watchdog import Pace
from swarmbed_robot.onboard import OPTIONS, make_robot

options = {option.name: option.default for option in OPTIONS}
robot = make_robot(options | {"device": "virtual+bench"})
device = robot.onboard.device
pace = Pace(100.0)
while device.clock.time < 1.0:
    if pace.due(device.clock.time):
        robot.onboard.step()
        robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
print(type(device.motors).__name__, robot.sense().pose_odom[0] > 0.02)
"""


def test_a_package_of_ones_own(follow, tmp_path):
    follow("own_package.md")
    [file] = tmp_path.glob("runs/random_walk-*/summary.json")
    summary = json.loads(file.read_text())
    assert (summary["world"], summary["controller"]) == ("still", "circle")
    # Five robots that turn at 0.4 rad/s for three seconds.
    assert summary["metrics"]["laps"] == pytest.approx(5 * 0.4 * 3 / 6.283, rel=0.25)
    (tmp_path / "device.py").write_text(DEVICE)
    assert run([sys.executable, "device.py"], tmp_path).split() == ["Wheels", "True"]


@pytest.mark.timeout(400)
def test_robots_outside_the_simulation(follow, tmp_path, monkeypatch):
    from swarmbed_robot.domains import own_domain

    with own_domain() as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        follow(
            "reality.md", [("swarmbed run remote_motors", "--set robots.0.count=1 --set carriers.0.count=1")]
        )
    runs = {
        name: [json.loads(file.read_text()) for file in sorted(tmp_path.glob(f"runs/{name}-*/summary.json"))]
        for name in ("remote_motors", "elsewhere")
    }
    [task] = runs["remote_motors"]
    assert task["metrics"]["carriers_retrieved"] == 1
    assert [each["verdict"] for each in runs["elsewhere"]] == ["accepted", "accepted"]
    # The bodies in the world moved as the wheels elsewhere did.
    assert all(each["metrics"]["distance_per_robot"] > 0.3 for each in runs["elsewhere"])
    [seen] = [json.loads(file.read_text()) for file in tmp_path.glob("runs/seen-*/summary.json")]
    assert (seen["verdict"], seen["metrics"]["tracked_losses"]) == ("accepted", 0)
    assert seen["metrics"]["distances"]["seen1"] == pytest.approx(0.2 * 5.0, abs=0.1)
    assert {oct(file.stat().st_mode)[-3:] for file in (tmp_path / "keys").iterdir()} == {"600"}


@pytest.mark.timeout(400)
def test_what_a_run_leaves_can_be_read(follow):
    follow("reference/run_files.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_scripts_exist(page):
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    scripts = re.findall(r"\b(scripts/[a-z_]+(?:\.sh)?)", text)
    assert len(text.splitlines()) > 5
    for link in links:
        assert (page.parent / link).exists(), link
    for script in scripts:
        assert (ROOT / script).exists(), script


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_workspace_exist(page):
    """But for those that a page tells the reader to make, and the calibrations of real cameras."""
    named = r"`((?:config|docs|launch|requirements|src|urdf|worlds)/[\w./]+)`(?!, new)"
    for name in set(re.findall(named, page.read_text())) - {"config/cameras"}:
        assert (ROOT / name).exists(), name


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings(page):
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors(page.parent / link if link else page), f"{link}#{anchor}"


def test_every_page_is_on_the_list_of_pages():
    listed = set(re.findall(r"\]\(([\w/]+\.md)\)", (DOCS / "README.md").read_text()))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}


def test_options_that_pages_name_exist():
    """Each `swarmbed COMMAND --option` in a page is one that the command has."""
    text = (DOCS / "reference" / "command.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    known = {name: set(re.findall(r"--[a-z-]+", section)) | {"--help"} for name, section in sections.items()}
    for page in PAGES:
        for command, rest in re.findall(r"\bswarmbed ([a-z]+)\b([^`\n|]*)", page.read_text()):
            if command in known:
                options = set(re.findall(r"(?<![\w-])--[a-z-]+", rest.split("#")[0]))
                assert options <= known[command], (
                    f"{page.name}: swarmbed {command} {options - known[command]}"
                )


def test_the_readme_is_a_page():
    assert len((ROOT / "README.md").read_text().splitlines()) < 100
