"""What launch_testing runs and asserts of intralogistics.launch.py; test_intralogistics_launch.py has it run.

`launch_test src/swarmbed_bringup/test/launched_intralogistics.py out:=DIRECTORY` runs it too.
"""

from __future__ import annotations

import json
import os
import unittest
from pathlib import Path

import launch_testing
import launch_testing.actions
import launch_testing.asserts
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription

ROOT = Path(__file__).resolve().parents[3]
PROCESSES = {"world-1", "dots1_controller-2", "dots2_controller-3"}
SECONDS = 45.0  # it takes about ten


def generate_test_description():
    source = PythonLaunchDescriptionSource(str(ROOT / "launch" / "intralogistics.launch.py"))
    included = IncludeLaunchDescription(
        source,
        launch_arguments={
            "scenario": LaunchConfiguration("scenario"),
            "speed": "max",
            "out": LaunchConfiguration("out"),
        }.items(),
    )
    arguments = [DeclareLaunchArgument(name) for name in ("scenario", "out")]
    return LaunchDescription([*arguments, included, launch_testing.actions.ReadyToTest()])


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

    def test_the_carriers_were_retrieved(self, test_args):
        (directory,) = Path(test_args["out"]).iterdir()
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
        assert summary["verdict"] == "accepted", summary["reason"]
        assert summary["metrics"]["carriers_retrieved"] == 2
        assert summary["robots"] == 2
        assert (directory / "recording.mcap").stat().st_size > 0
