"""A robot behind ROS does what every robot must do."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import Twist
from swarmbed_core.contract import RobotContract
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.robot import Command
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_robot.api import OPTIONS, RobotApi
from swarmbed_robot.errors import RobotError
from swarmbed_robot.ros_robot import RosRobot

from swarmbed_interfaces import msg

DEFAULTS = {option.name: option.default for option in OPTIONS}


class RosRig:
    """A robot in a world of this process, behind the API, as its program has it."""

    def __init__(self, ros, kind):
        self.ros = ros
        self.world = MemoryWorld.of([kind], seed=3)
        self.swarm = LocalSwarm(self.world)
        self.onboard = self.swarm.robots[0].onboard
        # The contract's programs speak when they like; the heartbeat has a test of its own.
        self.api = RobotApi(ros.node("world"), self.swarm.robots[0], DEFAULTS | {"program_timeout": 10.0})
        self._robot = RosRobot(ros.node("program"), self.onboard.device.name)
        self.sent = 0
        act = self._robot.act

        def counted(command):
            self.sent += 1
            act(command)

        self._robot.act = counted
        ros.spin_until(lambda: self._robot.listeners, "the robot")
        ros.spin_until(self.api.outputs["senses"].publisher.get_subscription_count, "the program")
        self.catch_up()

    def catch_up(self):
        self.api.sense(self.world.time, anyway=True)
        self.ros.spin_until(
            lambda: self._robot.ready and self._robot.time == self.world.time, "senses of now"
        )

    @property
    def robot(self):
        return self._robot

    def advance(self, seconds):
        self.ros.spin_until(lambda: self.api.commands == self.sent, "the commands")
        for _ in range(round(seconds / self.world.timestep)):
            self.swarm.step()
            self.api.cycle(self.world.time)
        self.catch_up()

    def truth(self):
        return self.world.truth()[0]


KINDS = ("dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car")


@pytest.fixture(params=KINDS)
def rig(ros, request):
    rig = RosRig(ros, request.param)
    yield rig
    rig.api.close()


class TestRosRobot(RobotContract):
    """The contract, over ROS."""


@pytest.fixture
def dots(ros):
    rig = RosRig(ros, "dots")
    yield rig
    rig.api.close()


def test_what_it_senses_is_what_the_onboard_senses(dots):
    dots.robot.act(Command(velocity_body=(0.2, 0.1, 0.3)))
    dots.advance(0.4)
    over_ros = dots.robot.sense()
    here = dots.swarm.robots[0].latest
    assert over_ros.time == here.time == dots.world.time
    assert np.array_equal(over_ros.pose_odom, here.pose_odom)
    assert np.array_equal(over_ros.twist_body, here.twist_body)
    assert np.array_equal(over_ros.ranges["tof"], here.ranges["tof"], equal_nan=True)
    assert np.array_equal(over_ros.points_body, here.points_body)
    assert np.array_equal(over_ros.collision_map.as_grid(), here.collision_map.as_grid())
    assert over_ros.motion == here.motion
    assert over_ros.battery == here.battery
    assert over_ros.heading == here.heading


def test_what_no_message_can_hold_is_refused_by_the_robot(dots):
    dots.robot.act(Command(leds=[2**40] * 16))
    dots.robot.act(Command(velocity_body="fast"))
    dots.advance(0.1)
    assert dots.robot.refused[0] == 2
    assert dots.robot.sense().refused["input.command"] == 2


def test_a_silent_program_stops_its_robot(ros):
    rig = RosRig(ros, "dots")
    rig.api._program.timeout = 0.2
    for _ in range(10):
        rig.robot.act(Command(velocity_body=(0.8, 0.0, 0.0)))
        rig.advance(0.1)
    assert rig.truth()[3] == pytest.approx(0.8, abs=0.05)
    rig.advance(0.6)
    assert math.hypot(*rig.truth()[3:5]) < 0.02
    assert rig.robot.sense().refused["program.silent"] == 1
    rig.robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
    rig.advance(0.2)
    assert rig.truth()[3] > 0.1
    rig.api.close()


def test_a_refused_twist_is_no_new_driver(ros):
    """A program dies on its path; a NaN on cmd_vel must not let the robot drive on to its end."""
    rig = RosRig(ros, "dots")
    rig.api._program.timeout = 0.2
    rig.robot.act(Command(path=Path((Waypoint((5.0, 0.0, 0.0)),), max_speed=0.5)))
    rig.advance(0.15)
    bad = Twist()
    bad.linear.x = math.nan
    rig.api._on_cmd_vel(bad)
    rig.advance(1.0)
    assert math.hypot(*rig.truth()[3:5]) < 0.02
    assert rig.robot.sense().refused["program.silent"] == 1
    rig.api.close()


def test_a_timeout_shorter_than_a_tick_is_refused(ros):
    with pytest.raises(RobotError, match=r"program_timeout is 0.2 s: expected at least 0.3 s"):
        RobotApi(
            ros.node("world"),
            LocalSwarm(MemoryWorld.of(["dots"])).robots[0],
            DEFAULTS | {"senses_rate": 5.0},
        )


def test_nobody_is_told(domain):
    with pytest.raises(RobotError, match=rf"no robot 'nobody' for 0.3 s in ROS domain {domain}: check that"):
        RosRobot.connect("nobody", patience=0.3, domain=domain)


def test_a_tick_that_is_held_goes_out_with_what_the_program_does_at_its_end(dots):
    robot, sent = dots.robot, []
    robot._commands = SimpleNamespace(publish=sent.append)
    robot.hold()
    robot.act(Command(lift=True))
    robot.act(Command(velocity_body=(0.1, 0.0, 0.0)))
    assert sent == []
    robot.doing = "dock"
    robot.release()
    assert [(made.doing, made.lift, len(made.velocity_body)) for made in sent] == [
        ("dock", msg.Command.YES, 0),
        ("dock", msg.Command.KEEP, 3),
    ]
    robot.hold()
    robot.doing = "wait"
    robot.release()
    assert sent[2].doing == "wait", "a program that wants nothing is there all the same"
    robot.act(Command())
    assert len(sent) == 4
