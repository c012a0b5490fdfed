"""Paths and velocities on one robot: the latest wish wins, and the body never jumps."""

import math

import numpy as np
import pytest
from swarmbed_core.control import Mode
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import compose
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.motion import SETTLE_SECONDS, Motion, Outcome
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint

DT = 0.01


class Body:
    """A body that does at once what the wheels are told."""

    def __init__(self, spec: RobotSpec):
        self.motion = Motion(spec)
        self.drive = Kinematics.of(spec)
        self.time = 0.0
        self.pose = np.zeros(3)
        self.twist = np.zeros(3)

    def run(self, seconds: float) -> np.ndarray:
        """Return the twists of every cycle, along the axes of odom."""
        twists = []
        for _ in range(round(seconds / DT)):
            self.time += DT
            self.pose = compose(self.pose, self.twist * DT)
            self.twist = self.drive.body(self.motion.step(self.time, self.pose, self.twist))
            c, s = math.cos(self.pose[2]), math.sin(self.pose[2])
            vx, vy, omega = self.twist
            twists.append((c * vx - s * vy, s * vx + c * vy, omega))
        return np.array(twists)


@pytest.fixture
def body(dots):
    return Body(dots)


def to(*pose: float, velocity=(0.0, 0.0, 0.0)) -> Path:
    return Path((Waypoint(pose, velocity),))


def test_it_stands_until_somebody_wants_something(body):
    assert np.all(body.run(0.5) == 0.0)
    assert body.motion.mode is Mode.IDLE
    assert body.motion.paths == 0


def test_a_path_is_driven_and_then_over(body):
    body.motion.follow(to(1.0, 0.5, 1.0), body.pose)
    assert body.motion.mode is Mode.PATH
    body.run(3.0)
    assert body.pose == pytest.approx([1.0, 0.5, 1.0], abs=0.003)
    assert body.motion.mode is Mode.IDLE
    assert body.motion.progress == 1.0
    assert body.motion.waypoint == 1


def test_a_body_that_cannot_arrive_is_not_waited_for(body):
    body.motion.follow(to(0.3, 0.0, 0.0), body.pose)
    modes = []
    for _ in range(400):
        body.time += DT
        body.motion.step(body.time, np.zeros(3), np.zeros(3))
        modes.append(body.motion.mode)
    done = modes.index(Mode.IDLE)
    playing = 0.3 / 2.0 + 1.5
    assert done * DT < playing + SETTLE_SECONDS
    assert np.all(body.motion.controller.v_body == np.zeros(3)) or abs(body.motion.controller.v_body[0]) < 0.5


def test_from_a_velocity_to_a_path_without_a_jump(body, dots):
    for _ in range(10):
        body.motion.command((0.8, -0.4, 0.5), body.time)
        body.run(0.1)
    before = body.run(DT)[-1]
    body.motion.follow(to(3.0, 1.0, 0.0), body.pose)
    twists = np.vstack([before, body.run(2.0)])
    change = np.linalg.norm(np.diff(twists[:, :2], axis=0), axis=1).max()
    assert change <= 1.3 * dots.limits.acceleration * DT
    assert body.motion.mode is Mode.PATH


def test_from_a_path_to_a_velocity_without_a_jump(body, dots):
    body.motion.follow(to(3.0, 0.0, 0.0), body.pose)
    twists = [body.run(0.8)]
    for _ in range(10):
        body.motion.command((0.0, 0.5, 0.0), body.time)
        twists.append(body.run(0.1))
    assert body.motion.mode is Mode.VELOCITY
    change = np.linalg.norm(np.diff(np.vstack(twists)[:, :2], axis=0), axis=1).max()
    assert change <= 1.3 * dots.limits.acceleration * DT
    assert body.twist[1] == pytest.approx(0.5, abs=0.01)


def test_cancel_brakes_a_path_and_a_velocity(body):
    body.motion.follow(to(3.0, 0.0, 0.0), body.pose)
    body.run(0.8)
    body.motion.cancel()
    body.run(1.2)
    assert np.abs(body.twist).max() < 0.01
    body.motion.command((1.0, 0.0, 0.0), body.time)
    body.run(0.4)
    assert body.twist[0] > 0.5
    body.motion.cancel()
    body.run(0.6)
    assert np.abs(body.twist).max() < 0.01
    assert body.motion.mode is Mode.IDLE


def test_switched_off_it_forgets_and_stands(body):
    body.motion.follow(to(3.0, 0.0, 0.0), body.pose)
    body.run(0.5)
    body.motion.enable(False)
    assert np.all(body.run(0.5) == 0.0)
    body.motion.enable(True)
    assert np.all(body.run(0.5) == 0.0)


def test_a_refused_path_changes_nothing(body, dots):
    body.motion.follow(to(2.0, 0.0, 0.0), body.pose)
    body.run(0.3)
    too_fast = to(1.0, 0.0, 0.0, velocity=(2 * dots.limits.speed, 0.0, 0.0))
    with pytest.raises(PathError):
        body.motion.follow(too_fast, body.pose)
    assert body.motion.paths == 1
    body.run(3.0)
    assert body.pose[0] == pytest.approx(2.0, abs=0.003)


def test_a_corrected_path_goes_on_where_it_was(body):
    way = [(0.5, 0.0, 0.0), (1.0, 0.0, 0.0), (1.5, 0.0, 0.0)]
    body.motion.follow(Path(tuple(Waypoint(pose) for pose in way)), body.pose)
    while body.motion.waypoint < 1:
        body.run(DT)
    before = body.motion.progress
    assert body.motion.correct(Path(tuple(Waypoint((x, 0.2, 0.0)) for x, _, _ in way)))
    assert body.motion.waypoint == 1
    assert body.motion.progress == pytest.approx(before, abs=0.05)
    body.run(6.0)
    assert body.pose == pytest.approx([1.5, 0.2, 0.0], abs=0.003)
    assert body.motion.waypoint == 3
    assert body.motion.progress == 1.0
    assert not body.motion.correct(Path((Waypoint((0.0, 0.0, 0.0)),)))


def test_a_clock_that_steps_back_does_not_move_the_set_point(body):
    body.motion.follow(to(2.0, 0.0, 0.0), body.pose)
    body.run(0.5)
    there = body.motion.player.setpoint.pose[0]
    body.time -= 0.3
    body.motion.step(body.time, body.pose, body.twist)
    assert body.motion.player.setpoint.pose[0] == there


def test_what_is_left_of_a_path_is_measured_along_its_waypoints(body):
    motion = body.motion
    assert motion.path is None
    assert motion.distance_remaining == 0.0
    assert all(math.isnan(off) for off in motion.off_end(body.pose))
    way = to_all((1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0))
    motion.follow(way, body.pose)
    assert motion.path is way
    assert motion.distance_remaining == pytest.approx(3.0)
    left, before = [], 3.0
    for _ in range(1000):
        body.run(DT)
        left.append(motion.distance_remaining)
        assert left[-1] <= before + 1e-9
        before = left[-1]
        if motion.mode is Mode.IDLE:
            break
    assert left[-1] == 0.0
    # At half of the way half is left.
    at_corner = next(k for k in range(len(left)) if left[k] < 2.0)
    assert left[at_corner] == pytest.approx(2.0, abs=0.05)


def test_a_corrected_path_is_the_one_that_is_left(body):
    body.motion.follow(to_all((0.5, 0.0, 0.0), (2.0, 0.0, 0.0)), body.pose)
    while body.motion.waypoint < 1:
        body.run(DT)
    moved = to_all((0.5, 0.5, 0.0), (2.0, 0.5, 0.0))
    assert body.motion.correct(moved)
    assert body.motion.path is moved
    x, y, _ = body.motion.player.setpoint.pose
    assert body.motion.distance_remaining == pytest.approx(math.hypot(2.0 - x, 0.5 - y))
    # One that is refused is not.
    assert not body.motion.correct(to(9.0, 0.0, 0.0))
    assert body.motion.path is moved


def test_how_far_a_pose_is_off_the_end(body):
    body.motion.follow(to_all((1.0, 0.0, 0.0), (3.0, 4.0, 3.0)), body.pose)
    assert body.motion.off_end((0.0, 0.0, 3.0)) == pytest.approx((5.0, 0.0))
    assert body.motion.off_end((3.0, 4.0, -3.0)) == pytest.approx((0.0, 2 * math.pi - 6.0))
    body.motion.cancel()
    body.run(1.0)
    # Also of a path that is over.
    assert body.motion.off_end(body.pose)[0] > 1.0


def to_all(*poses) -> Path:
    return Path(tuple(Waypoint(pose) for pose in poses))


def test_ramped_down_it_comes_to_rest_as_fast_as_it_may(body, dots):
    body.motion.follow(to(5.0, 0.0, 0.0), body.pose)
    body.run(0.8)
    fast = body.twist[0]
    assert fast > 0.5
    body.motion.ramp_down()
    twists = np.vstack([[fast, 0.0, 0.0], body.run(1.5)])
    assert np.abs(np.diff(twists[:, 0])).max() <= 1.01 * dots.limits.acceleration * DT
    assert np.abs(body.twist).max() < 1e-9
    assert (body.motion.mode, body.motion.outcome) == (Mode.IDLE, Outcome.CANCELLED)
