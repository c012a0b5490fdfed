"""The contract of `Robot`, as tests that every implementation must pass.

A test class inherits `RobotContract` and provides a fixture `rig`: a robot at the origin of an empty floor,
and a method that lets its world's time pass. The same tests apply to a robot in this process, behind ROS, in
any world or in hardware, and to every kind of robot.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from swarmbed_core.control import Mode
from swarmbed_core.geometry import angle_between, rotate
from swarmbed_core.robot import Command, Robot
from swarmbed_core.trajectory import Path, Waypoint

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

YAW_DRIFT = 0.1
"""Allowed yaw error, in radians: the drift of an uncalibrated gyro over a few seconds."""
TICK = 0.1
"""Seconds between two commands: controllers are ticked at 10 Hz."""


class Rig(Protocol):
    """One robot at the origin of an empty floor, and control of its world's time."""

    @property
    def robot(self) -> Robot:
        """Return the robot under test."""
        ...

    def advance(self, seconds: float) -> None:
        """Let the world's time pass."""
        ...

    def truth(self) -> FloatArray:
        """Return the body's true pose and twist: x, y, yaw, vx_body, vy_body, omega."""
        ...


def drive(rig: Rig, velocity_body: tuple[float, float, float], seconds: float) -> None:
    """Repeat a velocity command at the rate of a controller."""
    for _ in range(round(seconds / TICK)):
        rig.robot.act(Command(velocity_body=velocity_body))
        rig.advance(TICK)


def gentle(robot: Robot) -> float:
    """Return a speed that the robot can sustain: half of its own limit, at most 0.5 m/s."""
    return min(0.5, robot.spec.limits.speed / 2)


class RobotContract:
    """Tests for any `Robot`; the class that inherits them provides the fixture `rig`."""

    def test_at_rest_it_knows_that_it_rests(self, rig: Rig) -> None:
        """A robot without commands stays in place; its senses are at rest and match its spec."""
        rig.advance(0.5)
        senses = rig.robot.sense()
        spec = rig.robot.spec
        assert np.allclose(senses.pose_odom, 0.0, atol=0.01)
        assert np.allclose(senses.twist_body, 0.0, atol=0.02)
        assert set(senses.ranges) == {ring.name for ring in spec.ranges}
        for ring in spec.ranges:
            assert senses.ranges[ring.name].shape == (ring.count,)
        assert (senses.lifter_height is None) == (spec.lifter is None)
        assert (senses.battery is None) == (spec.battery is None)
        assert (senses.heading is None) == (spec.compass is None)
        assert set(senses.heard) == {radio.name for radio in spec.radios}
        assert senses.motion.mode is Mode.IDLE

    def test_time_passes(self, rig: Rig) -> None:
        """The senses carry the world's clock."""
        rig.advance(TICK)
        before = rig.robot.sense().time
        rig.advance(1.0)
        assert math.isclose(rig.robot.sense().time - before, 1.0, abs_tol=0.02)

    def test_it_drives_forward(self, rig: Rig) -> None:
        """A repeated velocity moves the body, and odometry agrees with the truth."""
        speed = gentle(rig.robot)
        drive(rig, (speed, 0.0, 0.0), 2.0)
        truth = rig.truth()
        senses = rig.robot.sense()
        assert truth[0] > speed
        assert abs(truth[1]) < 0.05 * truth[0] + 0.005
        assert math.isclose(truth[3], speed, rel_tol=0.1)
        assert np.allclose(senses.pose_odom[:2], truth[:2], atol=0.05 * truth[0] + 0.01)
        assert senses.motion.mode is Mode.VELOCITY

    def test_it_turns(self, rig: Rig) -> None:
        """A repeated yaw rate turns the body on the spot."""
        rate = min(1.0, rig.robot.spec.limits.yaw_rate / 2)
        drive(rig, (0.0, 0.0, rate), 1.0)
        truth = rig.truth()
        assert rate * 0.5 < truth[2] < rate * 1.1
        assert math.hypot(truth[0], truth[1]) < 0.02

    def test_only_holonomic_robots_move_sideways(self, rig: Rig) -> None:
        """A sideways command moves a holonomic robot and no other."""
        speed = gentle(rig.robot)
        drive(rig, (0.0, speed, 0.0), 1.0)
        moved = rig.truth()[1]
        if rig.robot.spec.holonomic:
            assert moved > 0.5 * speed
        else:
            assert abs(moved) < 0.01

    def test_speed_and_acceleration_stay_within_limits(self, rig: Rig) -> None:
        """The body never exceeds its limits, whatever the command."""
        spec = rig.robot.spec
        slip, radius = 0.02 + 4 * spec.drive.wheels.slip_sigma, spec.body.bounding_radius
        before = rig.truth()
        for _ in range(20):
            rig.robot.act(Command(velocity_body=(10.0, -10.0, 50.0)))
            rig.advance(TICK)
            now = rig.truth()
            assert math.hypot(now[3], now[4]) <= spec.limits.speed * (1 + slip)
            assert abs(now[5]) <= spec.limits.yaw_rate * (1 + slip) + slip * spec.limits.speed / radius
            change = now[3:5] - before[3:5]
            if spec.holonomic:
                # Relative to the floor. A differential robot's velocity always turns with its body.
                change = rotate(now[3:5], now[2]) - rotate(before[3:5], before[2])
            most = spec.limits.acceleration_available * TICK + slip * spec.limits.speed
            assert math.hypot(*change) <= most
            before = now

    def test_silence_stops_it(self, rig: Rig) -> None:
        """A command that is not repeated expires after the command time-out."""
        speed = gentle(rig.robot)
        drive(rig, (speed, 0.0, 0.0), 1.0)
        limits = rig.robot.spec.limits
        rig.advance(rig.robot.spec.control.command_timeout + speed / limits.acceleration + 0.2)
        assert np.allclose(rig.truth()[3:], 0.0, atol=0.01)
        assert rig.robot.sense().motion.mode is Mode.IDLE

    def test_it_follows_a_path(self, rig: Rig) -> None:
        """A path of several waypoints ends at its last one, at rest."""
        size = 10 * gentle(rig.robot) * 0.2
        goal = (size, size / 2, math.pi / 2)
        waypoints = (Waypoint((size, 0.0, 0.0)), Waypoint(goal))
        rig.robot.act(Command(path=Path(waypoints)))
        rig.advance(TICK)
        status = rig.robot.sense().motion
        assert status.mode is Mode.PATH
        assert status.path == 1
        for _ in range(600):
            if rig.robot.sense().motion.mode is Mode.IDLE:
                break
            rig.advance(TICK)
        truth = rig.truth()
        assert rig.robot.sense().motion.progress == 1.0
        assert np.allclose(truth[:2], goal[:2], atol=0.05 * size + 0.03)
        assert abs(angle_between(goal[2], truth[2])) < YAW_DRIFT
        assert np.allclose(truth[3:], 0.0, atol=0.05)

    def test_a_new_path_replaces_the_old(self, rig: Rig) -> None:
        """The robot drives to the new goal without first going to the old one."""
        far = 20 * gentle(rig.robot)
        near = 2 * gentle(rig.robot)
        rig.robot.act(Command(path=Path((Waypoint((far, 0.0, 0.0)),))))
        rig.advance(1.0)
        rig.robot.act(Command(path=Path((Waypoint((near, 0.0, 0.0)),))))
        rig.advance(TICK)
        assert rig.robot.sense().motion.path == 2
        furthest = 0.0
        for _ in range(300):
            rig.advance(TICK)
            furthest = max(furthest, float(rig.truth()[0]))
            if rig.robot.sense().motion.mode is Mode.IDLE:
                break
        assert furthest < far / 2
        assert math.isclose(rig.truth()[0], near, abs_tol=0.05 * near + 0.03)

    def test_cancel_brakes(self, rig: Rig) -> None:
        """Cancelling a path stops the robot at its maximum deceleration."""
        limits = rig.robot.spec.limits
        far = 50 * gentle(rig.robot)
        rig.robot.act(Command(path=Path((Waypoint((far, 0.0, 0.0)),), max_speed=gentle(rig.robot))))
        rig.advance(1.0)
        rig.robot.act(Command(cancel=True))
        rig.advance(gentle(rig.robot) / limits.acceleration + 2 * limits.acceleration / limits.jerk + 0.4)
        assert np.allclose(rig.truth()[3:], 0.0, atol=0.02)
        assert rig.robot.sense().motion.mode is Mode.IDLE

    def test_impossible_numbers_are_refused(self, rig: Rig) -> None:
        """A velocity that is not finite is ignored and counted."""
        for bad in (math.nan, math.inf, -math.inf):
            rig.robot.act(Command(velocity_body=(bad, 0.0, 0.0)))
            rig.robot.act(Command(velocity_body=(0.0, 0.0, bad)))
            rig.advance(TICK)
        assert np.allclose(rig.truth(), 0.0, atol=0.01)
        assert sum(rig.robot.sense().refused.values()) == 6

    def test_what_it_lacks_is_refused(self, rig: Rig) -> None:
        """Commands to missing parts, or beyond what a part can do, are counted and ignored."""
        robot = rig.robot
        commands = [Command(leds=[0] * 1000), Command(send={"no such radio": b"hello"})]
        if robot.spec.lifter is None:
            commands.append(Command(lift=True))
        commands += [Command(send={radio.name: b"x" * 100_000}) for radio in robot.spec.radios]
        for command in commands:
            robot.act(command)
            rig.advance(TICK)
        assert sum(robot.sense().refused.values()) == len(commands)

    def test_the_lifter_lifts(self, rig: Rig) -> None:
        """The platform, if there is one, goes up and down at the speed of its servo."""
        lifter = rig.robot.spec.lifter
        if lifter is None:
            return
        for lift, height in ((True, lifter.raised), (False, lifter.lowered)):
            for _ in range(round(lifter.travel_time * 1.3 / TICK)):
                rig.robot.act(Command(lift=lift))
                rig.advance(TICK)
            reached = rig.robot.sense().lifter_height
            assert reached is not None
            assert math.isclose(reached, height, abs_tol=0.002)

    def test_motors_can_be_switched_off(self, rig: Rig) -> None:
        """With the drives off the robot does not move; with them on again, it does."""
        speed = gentle(rig.robot)
        rig.robot.act(Command(motors=False))
        drive(rig, (speed, 0.0, 0.0), 1.0)
        assert np.allclose(rig.truth(), 0.0, atol=0.01)
        rig.robot.act(Command(motors=True))
        drive(rig, (speed, 0.0, 0.0), 1.0)
        assert rig.truth()[0] > 0.2 * speed

    def test_senses_are_a_snapshot(self, rig: Rig) -> None:
        """Senses returned earlier do not change as the robot moves on."""
        rig.advance(TICK)
        senses = rig.robot.sense()
        pose = senses.pose_odom.copy()
        ranges = {name: values.copy() for name, values in senses.ranges.items()}
        drive(rig, (gentle(rig.robot), 0.0, 0.5), 1.0)
        assert np.array_equal(senses.pose_odom, pose)
        for name, values in ranges.items():
            assert np.array_equal(senses.ranges[name], values, equal_nan=True)
