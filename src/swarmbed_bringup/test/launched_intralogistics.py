"""What launch_testing runs and asserts of intralogistics.launch.py; test_launched.py has it run.

`launch_test src/swarmbed_bringup/test/launched_intralogistics.py` runs it too.
"""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path

import launch_testing
import launch_testing.actions
import launch_testing.asserts
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from launch import LaunchDescription

ROOT = Path(__file__).resolve().parents[3]
ROBOTS = 5
PROCESSES = {"world-1"} | {f"dots{k}_controller-{k + 1}" for k in range(1, ROBOTS + 1)}
SECONDS = 150.0  # it takes about twenty


def generate_test_description():
    out = tempfile.mkdtemp()
    included = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(ROOT / "launch" / "intralogistics.launch.py")),
        launch_arguments={"scenario": "intralogistics_cooperative", "speed": "max", "out": out}.items(),
    )
    return LaunchDescription([included, launch_testing.actions.ReadyToTest()]), {"out": out}


class TestWhileItRuns(unittest.TestCase):
    def test_it_ends_by_itself(self, proc_info):
        proc_info.assertWaitForStartup("world", timeout=SECONDS)
        proc_info.assertWaitForShutdown("world", timeout=SECONDS)


@launch_testing.post_shutdown_test()
class TestAfterwards(unittest.TestCase):
    def test_all_ended_cleanly(self, proc_info):
        assert set(proc_info.process_names()) == PROCESSES
        launch_testing.asserts.assertExitCodes(proc_info)

    def test_no_process_is_left(self, proc_info):
        for name in proc_info.process_names():
            with self.assertRaises(ProcessLookupError):  # noqa: PT027 - launch_testing runs unittest
                os.kill(proc_info[name].pid, 0)

    def test_the_carriers_were_retrieved(self, out):
        (directory,) = Path(out).iterdir()
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
        assert summary["verdict"] == "accepted", summary["reason"]
        assert summary["metrics"]["carriers_retrieved"] == summary["metrics"]["carriers"] == 5
        assert summary["robots"] == ROBOTS
        assert (directory / "recording.mcap").stat().st_size > 0
