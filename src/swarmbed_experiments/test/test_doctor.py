"""The doctor names what lacks with what mends it, whatever is wrong with a machine."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys

import pytest
from rich.console import Console
from swarmbed_core.kernel import cache_directory
from swarmbed_experiments.tools import doctor, leftovers
from swarmbed_experiments.tools.doctor import MISSING, NOTE, OK, OPTIONAL, Check
from swarmbed_robot.domains import hold, own_domain
from swarmbed_robot.middleware import PROFILES
from typer.testing import CliRunner

from swarmbed_experiments import cli, report


def of(check):
    return {one.name: one for one in check()}


def test_a_machine_that_runs_these_tests_has_all_that_is_needed():
    result = CliRunner().invoke(cli.app, ["doctor", "--json"])
    told = json.loads(result.output)
    assert [one for one in told["checks"] if one["state"] == MISSING] == []
    assert (result.exit_code, told["ready"]) == (0, True)
    names = {one["name"] for one in told["checks"]}
    assert {"Python", "ROS 2", "interfaces", "workspace", "rendering", "Gazebo 11", "disk"} <= names
    for one in told["checks"]:
        assert one["found"]
        assert bool(one["mend"]) or one["state"] in {OK, NOTE}, one


@pytest.mark.parametrize("there", [True, False])
def test_an_optional_library_is_told(monkeypatch, there):
    monkeypatch.setattr(doctor, "_imports", lambda _: there)
    [told] = doctor._optional()
    assert told.name == "xdevs"
    assert (told.state, told.mend) == ((OK, "") if there else (OPTIONAL, "scripts/setup --devs"))


def test_something_missing_is_exit_1_and_is_told_with_what_mends_it(monkeypatch):
    lacks = [Check("Python", OK, "3.11"), Check("disk", MISSING, "0.1 GB free", "rm -r runs/...")]
    monkeypatch.setattr(doctor, "examine", lambda: lacks)
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert result.exit_code == 1
    assert "-> rm -r runs/..." in result.output
    optional = [Check("rviz2", OPTIONAL, "for looking", "apt install it")]
    monkeypatch.setattr(doctor, "examine", lambda: optional)
    assert CliRunner().invoke(cli.app, ["doctor"]).exit_code == 0


def test_a_check_that_fails_hides_no_other(monkeypatch):
    def broken():
        raise OSError(5, "no such thing")
        yield

    monkeypatch.setattr(doctor, "_ros", broken)
    monkeypatch.setattr(doctor, "_rendering", lambda: iter(()))
    told = {one.name: one for one in doctor.examine()}
    assert told["broken"].state == MISSING
    assert "no such thing" in told["broken"].found
    assert {"Python", "disk"} <= told.keys()


def test_without_ros_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rclpy", None)
    ros = of(doctor._ros)["ROS 2"]
    assert (ros.state, ros.mend) == (MISSING, "scripts/setup, then source scripts/env.sh")


def test_packages_that_cannot_be_imported_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    packages = of(doctor._packages)["Python packages"]
    assert packages.state == MISSING
    assert packages.found.endswith(": mujoco")


@pytest.mark.parametrize("domain", ["233", "-1", "x"])
def test_a_domain_that_is_none(monkeypatch, domain):
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    found = of(doctor._domain)["ROS domain"]
    assert found.state == MISSING
    assert f"'{domain}'" in found.found


def test_a_domain_with_a_world_is_told(monkeypatch):
    with own_domain() as number:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(number))
        assert of(doctor._domain)["ROS domain"].state == OK
        lock = hold(number)
        found = of(doctor._domain)["ROS domain"]
        lock.close()
    assert (found.state, found.mend) == (NOTE, f"swarmbed up --domain {(number + 1) % 100}")


def test_a_profile_that_is_not_there(monkeypatch, tmp_path):
    for name in PROFILES:
        # Nodes of this process may have set one.
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FASTRTPS_DEFAULT_PROFILES_FILE", str(tmp_path / "none.xml"))
    profile = of(doctor._middleware)["DDS profile"]
    assert (profile.state, profile.mend) == (MISSING, "unset FASTRTPS_DEFAULT_PROFILES_FILE")


def test_a_loopback_that_is_down(monkeypatch):
    class Dead(socket.socket):
        def sendto(self, *_):
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(doctor.socket, "socket", Dead)
    assert of(doctor._middleware)["loopback"].state == MISSING


def test_a_driver_that_crashes_is_told(monkeypatch):
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda _: "libEGL.so.1")
    monkeypatch.setattr(doctor, "RENDER", "import os; os.abort()")
    assert of(doctor._rendering)["rendering"].state == OPTIONAL
    monkeypatch.setattr(doctor, "RENDER", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "RENDER_SECONDS", 0.2)
    assert "within 0.2 s" in of(doctor._rendering)["rendering"].found
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda _: None)
    assert "no EGL" in of(doctor._rendering)["rendering"].found


def test_a_full_disk_and_a_cache_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1e8}))
    assert of(doctor._disk)["disk"].state == MISSING
    monkeypatch.setattr(doctor, "cache_directory", lambda _: None)
    cache = of(doctor._cache)["kernel cache"]
    assert cache.state == MISSING
    assert "NUMBA_CACHE_DIR" in cache.mend
    monkeypatch.setattr(doctor, "cache_directory", cache_directory)
    assert of(doctor._cache)["kernel cache"].state == OK


def test_what_was_left_behind_is_told_and_ended_if_asked(monkeypatch):
    gone = leftovers.Found(4321, 1, "world intralogistics", "7", orphaned=True)
    used = leftovers.Found(4322, 1, "navigator", "7", orphaned=False)
    monkeypatch.setattr(leftovers, "find", lambda: [gone, used])
    told = list(doctor._processes())
    assert [(one.name, one.state) for one in told] == [("left behind", NOTE), ("running", OK)]
    assert told[0].mend == "swarmbed doctor --end-processes"
    asked = []

    def end(processes):
        asked.extend(processes)
        return ((one, True) for one in processes)

    monkeypatch.setattr(leftovers, "end", end)
    monkeypatch.setattr(doctor, "examine", list)
    result = CliRunner().invoke(cli.app, ["doctor", "--end-processes"])
    assert asked == [gone]
    assert "ended: world intralogistics, process 4321" in result.output


def test_the_table_fits_80_columns():
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(report.doctor_table([Check("a", OPTIONAL, "x" * 200, "apt install " + "y" * 90)]))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("y") for line in lines) == 90


def test_it_starts_without_ros(tmp_path):
    """The command itself must not need what it is to find missing."""
    script = (
        "import sys\n"
        "for name in ('rclpy', 'ament_index_python', 'swarmbed_interfaces'): sys.modules[name] = None\n"
        "from swarmbed_experiments.tools import doctor\n"
        "told = doctor.examine()\n"
        "assert not doctor.is_ready(told)\n"
        "print([one.mend for one in told if one.name == 'ROS 2'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "scripts/setup" in done.stdout, done.stderr
