"""What launch_testing runs of swarm_checks.py; test_launched.py has it run.

`launch_test src/swarmbed_bringup/test/launched_swarm.py` runs all checks, with CHECK=NAME one of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path

import launch_testing
import launch_testing.actions
import launch_testing.markers
from launch.actions import ExecuteProcess, IncludeLaunchDescription
from launch.events.process import ProcessExited
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node

from launch import LaunchDescription

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "src" / "swarmbed_robot" / "test"))

from swarm_checks import CHECKS, Swarm, write_scenario

from conftest import Ros

CHOSEN = [os.environ["CHECK"]] if "CHECK" in os.environ else list(CHECKS)
STARTED = 30.0  # s
ENDED_BEFORE = set()


@launch_testing.parametrize("name", CHOSEN)
@launch_testing.markers.keep_alive
def generate_test_description(name):
    check = CHECKS[name]
    file = Path(tempfile.mkdtemp()) / "scenario.yaml"
    write_scenario(file, check.world)
    world = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(ROOT / "launch" / "world.launch.py")),
        launch_arguments={"scenario": str(file), "speed": check.speed}.items(),
    )
    # Where the check ends worlds it starts them, too: launch ends all with that of world.launch.py.
    worlds = [world] if check.speed else []
    return LaunchDescription([*worlds, launch_testing.actions.ReadyToTest()]), {"file": file}


class Program:
    """A process of launch."""

    def __init__(self, action, proc_info, proc_output):
        self.action, self.proc_info, self.proc_output = action, proc_info, proc_output

    @property
    def process(self):
        return self.proc_info[self.action]

    @property
    def said(self):
        return b"".join(said.text for said in self.proc_output[self.action]).decode(errors="replace")

    @property
    def ended(self):
        return isinstance(self.process, ProcessExited)

    def send(self, number):
        os.kill(self.process.pid, number)


class TestWhileItRuns(unittest.TestCase):
    def test_it_holds(self, name, file, launch_service, proc_info, proc_output):
        def start(program, *arguments, domain=None):
            told = {"additional_env": {"ROS_DOMAIN_ID": str(domain)} if domain else None, "output": "screen"}
            if "/" in program:
                action = ExecuteProcess(cmd=[program, *arguments], **told)
            else:
                action = Node(package="swarmbed_robot", executable=program, arguments=list(arguments), **told)
            launch_service.include_launch_description(LaunchDescription([action]))
            proc_info.assertWaitForStartup(action, timeout=STARTED)
            return Program(action, proc_info, proc_output)

        check = CHECKS[name]
        ros = Ros(int(os.environ.get("ROS_DOMAIN_ID") or 0))
        self.addCleanup(ros.close)
        here = Swarm(ros, start, file)
        if check.speed:
            proc_info.assertWaitForStartup("world", timeout=STARTED)
            here.await_world(Program(proc_info["world"].action, proc_info, proc_output))
        ENDED_BEFORE.clear()
        try:
            check.run(here)
        finally:
            ENDED_BEFORE.update(one.process_name for one in proc_info if isinstance(one, ProcessExited))


@launch_testing.post_shutdown_test()
class TestAfterwards(unittest.TestCase):
    def test_the_rest_ended_in_order(self, proc_info):
        codes = {one.process_name: one.returncode for one in proc_info}
        assert codes
        assert not any(code for name, code in codes.items() if name not in ENDED_BEFORE), codes

    def test_no_process_is_left(self, proc_info):
        for name in proc_info.process_names():
            with self.assertRaises(ProcessLookupError):  # noqa: PT027 - launch_testing runs unittest
                os.kill(proc_info[name].pid, 0)
