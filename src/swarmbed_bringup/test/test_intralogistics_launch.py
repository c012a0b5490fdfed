"""intralogistics.launch.py with the real programs, by launch_testing: it ends by itself, its task done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest.importorskip(
    "launch_ros.actions", reason="launch_ros is not installed: it comes with a full ROS 2, not from PyPI"
)
pytest.importorskip(
    "launch_testing.test_runner", reason="launch_testing is not installed: it comes with a full ROS 2"
)

SHORT = """
version: 1
title: two robots, two carriers near them
world: planar
arena: dots_arena
time_limit: 120
robots:
  - {kind: dots, place: {poses: [[0.6, 0.6, 3.1], [0.6, -0.6, 3.1]]}}
carriers:
  - {place: {poses: [[-0.4, 0.6, 0.0], [-0.4, -0.6, 0.0]]}}
controller: {name: cooperative}
frame:
  acceptors:
    - {name: retrieved}
"""


@pytest.mark.usefixtures("domain")
@pytest.mark.timeout(90)
def test_a_short_scenario_is_run_to_its_end(tmp_path, monkeypatch):
    scenario, report = tmp_path / "short.yaml", tmp_path / "report.xml"
    scenario.write_text(SHORT, encoding="utf-8")
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "log"))
    # A process of its own: launch wants the main thread, and leaves an event loop behind.
    run = [sys.executable, "-m", "launch_testing.launch_test", "--junit-xml", str(report)]
    asserted = Path(__file__).with_name("launched_intralogistics.py")
    arguments = [str(asserted), f"scenario:={scenario}", f"out:={tmp_path / 'out'}"]
    running = subprocess.Popen(
        [*run, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = running.communicate(timeout=75)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
            pytest.fail("a process was left behind; it is ended now")
    assert running.returncode == 0, printed
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    assert sum(len(list(suite.iter("testcase"))) for suite in suites[:1]) == 4, printed
