"""The launch files with the real programs, by launch_testing: what the launched_*.py assert of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")
pytest.importorskip(
    "launch_ros.actions", reason="launch_ros is not installed: it comes with a full ROS 2, not from PyPI"
)
pytest.importorskip(
    "launch_testing.test_runner", reason="launch_testing is not installed: it comes with a full ROS 2"
)

HERE = Path(__file__).parent
pytest.register_assert_rewrite("swarm_checks")
sys.path.insert(0, str(HERE.parents[1] / "swarmbed_robot" / "test"))

from swarm_checks import CHECKS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("domain")]


@pytest.fixture
def launch_test(tmp_path, monkeypatch):
    def run(file, cases, patience):
        report, log = tmp_path / "report.xml", tmp_path / "printed"
        monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "log"))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        # A process of its own: launch wants the main thread, and leaves an event loop behind.
        command = [sys.executable, "-m", "launch_testing.launch_test", "--junit-xml", str(report)]
        with log.open("wb") as stream:
            running = subprocess.Popen(
                [*command, str(HERE / file)], stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            status = running.wait(patience)
        finally:
            printed = log.read_text(encoding="utf-8", errors="replace")
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
                pytest.fail(f"a process was left behind; it is ended now\n{printed}")
        assert status == 0, printed
        assert len(list(ET.parse(report).getroot().iter("testcase"))) == cases, printed

    return run


@pytest.mark.parametrize("name", CHECKS)
def test_it_holds_in_launch_too_that(launch_test, monkeypatch, name):
    monkeypatch.setenv("CHECK", name)
    launch_test("launched_swarm.py", cases=3, patience=100)


@pytest.mark.timeout(200)
def test_intralogistics_with_five_robots_retrieves_five_of_five(launch_test):
    launch_test("launched_intralogistics.py", cases=4, patience=180)
