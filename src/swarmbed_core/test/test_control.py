"""Motion control: commands, tracking and what it refuses, on plants that are perfect or lag."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.control import HOLONOMIC, Mode, MotionController, parameters, slew_k, track_k
from swarmbed_core.geometry import rotate, wrap
from swarmbed_core.health import Health
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, PathPlayer, Setpoint, Waypoint

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

DT = 0.01
DOTS = RobotSpec.load("dots")
REST = (0.0, 0.0, 0.0)


class Plant:
    """A body whose wheels reach the speeds asked for at once, or with a lag."""

    def __init__(self, spec: RobotSpec, pose: tuple[float, float, float] = REST, lag: float = 0.0) -> None:
        self.kinematics = Kinematics.of(spec)
        self.pose = np.array(pose)
        self.share = 1.0 if lag == 0.0 else 1.0 - math.exp(-DT / lag)
        self.wheels = np.zeros(self.kinematics.count)
        self.v_body = np.zeros(3)

    def step(self, wheel_speeds: FloatArray) -> None:
        self.wheels += self.share * (wheel_speeds - self.wheels)
        self.v_body = self.kinematics.body(self.wheels)
        vx, vy, omega = self.v_body
        # Exact for a velocity that is constant in the turning body: along the chord of an arc.
        half = omega * DT / 2
        chord = DT * (math.sin(half) / half if abs(half) > 1e-9 else 1.0)
        c, s = math.cos(self.pose[2] + half), math.sin(self.pose[2] + half)
        self.pose += (chord * (c * vx - s * vy), chord * (s * vx + c * vy), omega * DT)


def paths_error(spec: RobotSpec, lag: float) -> tuple[float, float]:
    """Return the largest errors of position and yaw along a path, seen at the same time as the set-point."""
    scale = spec.limits.speed
    poses = [(1.0, 0.2, 0.5), (1.5, 1.5, -2.0), (0.0, 1.0, 3.0)]
    velocities = (
        [(0.5 * scale, 0.2 * scale, 0.3), (0.0, 0.5 * scale, 0.0), REST] if spec.holonomic else [REST] * 3
    )
    waypoints = [
        Waypoint((x * scale, y * scale, yaw), velocity)
        for (x, y, yaw), velocity in zip(poses, velocities, strict=True)
    ]
    player = PathPlayer(spec.limits, holonomic=spec.holonomic)
    controller, plant = MotionController(spec), Plant(spec, lag=lag)
    player.follow(Path(tuple(waypoints)), REST)
    setpoint, place, heading, time = player.setpoint, 0.0, 0.0, 0.0
    while player.active:
        plant.step(controller.track(time, plant.pose, plant.v_body, setpoint))
        setpoint = player.advance(DT)
        time += DT
        place = max(place, math.dist(plant.pose[:2], setpoint.pose[:2]))
        heading = max(heading, abs(wrap(plant.pose[2] - setpoint.pose[2])))
    for _ in range(200):
        plant.step(controller.track(time, plant.pose, plant.v_body, setpoint))
        time += DT
    assert math.dist(plant.pose[:2], setpoint.pose[:2]) < 0.003
    return place, heading


def test_a_perfect_body_tracks(any_spec: RobotSpec) -> None:
    place, heading = paths_error(any_spec, 0.0)
    assert place < 0.005
    assert heading < 0.02


def test_a_body_that_lags_tracks(any_spec: RobotSpec) -> None:
    place, heading = paths_error(any_spec, 0.05)
    # What a lag of 50 ms is late without feedback: acceleration times the lag, for as long as it lasts.
    assert place < 0.05 * any_spec.limits.speed
    assert heading < 0.05 * any_spec.limits.yaw_rate


def test_feedback_is_in_the_robots_frame() -> None:
    """A robot that faces +y and should be further along +x moves to its right, whatever its yaw counts."""
    for turns in (0, 3):
        controller = MotionController(DOTS)
        controller.track(
            0.0, (0, 0, math.pi / 2 + turns * 2 * math.pi), REST, Setpoint((0.1, 0, math.pi / 2))
        )
        gain = DOTS.control.linear.p
        assert controller.v_body == pytest.approx((0.0, -0.1 * gain, 0.0), abs=1e-9)
        assert controller.mode is Mode.PATH


@pytest.mark.parametrize("kind", ["pioneer3dx", "epuck2", "convoy_car"])
def test_lateral_error_steers(kind: str) -> None:
    spec = RobotSpec.load(kind)
    speed = spec.limits.speed / 2
    for side in (1.0, -1.0):
        controller, plant = MotionController(spec), Plant(spec, (0.0, 0.1 * side * speed, 0.0))
        assert controller.track(0.0, plant.pose, REST, Setpoint(REST))[0] == 0.0, "steers only when it moves"
        errors = []
        for i in range(2000):
            setpoint = Setpoint((i * DT * speed, 0.0, 0.0), (speed, 0.0, 0.0))
            plant.step(controller.track(i * DT, plant.pose, plant.v_body, setpoint))
            errors.append(side * plant.pose[1])
        assert errors[-1] == pytest.approx(0.0, abs=1e-3 * speed)
        assert min(errors) > -0.01 * speed, "overshoots"


def test_integral_removes_a_bias_and_is_bounded() -> None:
    controller = MotionController(DOTS)
    pid = DOTS.control.linear
    for i in range(300):
        controller.track(i * DT, REST, REST, Setpoint((0.01, -0.01, 0.0)))
    # The output is p e + the integral of i e.
    assert controller.v_body[0] == pytest.approx(0.01 * (pid.p + pid.i * 2.99))
    for i in range(300, 9000):
        controller.track(i * DT, REST, REST, Setpoint((0.01, -0.01, 0.0)))
    assert controller.v_body[:2] == pytest.approx(
        (0.01 * pid.p + pid.integral_limit, -0.01 * pid.p - pid.integral_limit)
    )
    controller.reset()
    controller.track(0.0, REST, REST, Setpoint((0.01, 0.0, 0.0)))
    assert controller.v_body[0] == pytest.approx(0.01 * pid.p)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_saturated_wheels_do_not_wind_up(axis: int) -> None:
    controller = MotionController(DOTS)
    far, near = [0.0] * 3, [0.0] * 3
    far[axis], near[axis] = 3.0, 1e-9
    for i in range(200):
        speeds = controller.track(i * DT, REST, REST, Setpoint((far[0], far[1], far[2])))
        assert np.abs(speeds).max() == pytest.approx(DOTS.drive.wheels.max_speed)
    speeds = controller.track(2.0, REST, REST, Setpoint((near[0], near[1], near[2])))
    assert np.abs(speeds).max() < DOTS.drive.wheels.max_speed
    # Nothing was stored in the two seconds.
    assert controller.v_body == pytest.approx(REST, abs=1e-6)


def test_saturation_keeps_the_direction() -> None:
    controller = MotionController(DOTS)
    controller.track(0.0, REST, REST, Setpoint((3.0, 4.0, 0.0)))
    vx, vy, omega = controller.v_body
    assert vy / vx == pytest.approx(4 / 3)
    assert omega == pytest.approx(0.0, abs=1e-12)


def test_derivative_acts_on_the_error_of_velocity() -> None:
    linear, yaw = DOTS.control.linear, DOTS.control.yaw
    control = DOTS.control.model_copy(
        update={"linear": linear.model_copy(update={"d": 0.5}), "yaw": yaw.model_copy(update={"d": 0.25})}
    )
    controller = MotionController(DOTS.model_copy(update={"control": control}))
    controller.track(0.0, REST, (0.1, -0.1, 0.2), Setpoint(REST, (0.3, 0.1, 0.4)))
    assert controller.v_body == pytest.approx((0.3 + 0.1, 0.1 + 0.1, 0.4 + 0.05), abs=2e-3)


def test_a_gap_integrates_for_a_short_time_only() -> None:
    controller = MotionController(DOTS)
    controller.track(0.0, REST, REST, Setpoint(REST))
    controller.track(1000.0, REST, REST, Setpoint((0.01, 0.0, 0.0)))
    controller.track(1000.0, REST, REST, Setpoint((0.01, 0.0, 0.0)))
    assert controller.v_body[0] == pytest.approx(
        0.01 * (DOTS.control.linear.p + 5 * DT * DOTS.control.linear.i)
    )


# Velocity commands


def drive(controller: MotionController, time: float, cycles: int) -> list[tuple[float, float, float]]:
    asked = []
    for i in range(cycles):
        speeds = controller.drive(time + i * DT)
        np.testing.assert_allclose(controller.kinematics.body(speeds), controller.v_body, atol=1e-12)
        asked.append(controller.v_body)
    return asked


def over_the_floor(steps: list[tuple[float, float, float]]) -> np.ndarray:
    """Return body velocities, one a cycle, along axes that do not turn."""
    omegas = np.array(steps)[:, 2]
    yaws = np.concatenate([[0.0], np.cumsum(0.5 * (omegas[1:] + omegas[:-1]) * DT)])
    return np.array([(*rotate(step[:2], yaw), step[2]) for step, yaw in zip(steps, yaws, strict=True)])


def test_a_command_is_reached_without_a_jump(any_spec: RobotSpec) -> None:
    limits = any_spec.limits
    controller = MotionController(any_spec)
    wish = (0.5 * limits.speed, 0.2 * limits.speed if any_spec.holonomic else 0.0, 0.1 * limits.yaw_rate)
    steps = [REST]
    for i in range(200):
        assert controller.command(wish, i * DT)
        steps += drive(controller, i * DT, 1)
    assert steps[-1] == pytest.approx(wish)
    changes = np.diff(over_the_floor(steps) if any_spec.holonomic else steps, axis=0)
    assert np.hypot(changes[:, 0], changes[:, 1]).max() <= limits.acceleration * DT * (1 + 1e-9)
    assert np.abs(changes[:, 2]).max() <= limits.yaw_acceleration * DT * (1 + 1e-9)
    assert controller.mode is Mode.VELOCITY


def test_commands_are_cut_to_the_limits(any_spec: RobotSpec) -> None:
    limits = any_spec.limits
    for wish in ((99.0, 0.0, 0.0), (0.0, 0.0, -99.0), (-99.0, 0.0, 99.0)):
        controller = MotionController(any_spec)
        for i in range(400):
            controller.command(wish, i * DT)
            speeds = controller.drive(i * DT)
            assert np.abs(speeds).max() <= any_spec.drive.wheels.max_speed
        vx, vy, omega = controller.v_body
        assert math.hypot(vx, vy) <= limits.speed * (1 + 1e-12)
        assert abs(omega) <= limits.yaw_rate * (1 + 1e-12)
        if 0.0 in (wish[0], wish[2]):
            assert max(math.hypot(vx, vy) / limits.speed, abs(omega) / limits.yaw_rate) == pytest.approx(1.0)


def test_sideways_is_lost_on_a_differential_robot() -> None:
    controller = MotionController(RobotSpec.load("pioneer3dx"))
    controller.command((0.0, 1.0, 0.0), 0.0)
    assert drive(controller, 0.0, 10)[-1] == REST


def test_time_out_is_half_a_second() -> None:
    health = Health()
    controller = MotionController(DOTS, health)
    start = 1234.5
    controller.command((0.8, 0.0, 0.0), start)
    # The cycle at 0.5 s still drives, the next does not.
    asked = drive(controller, start, 51)
    assert asked[-1][0] == pytest.approx(0.8)
    assert controller.mode is Mode.VELOCITY
    assert health.total == 0
    after = drive(controller, start + 0.51, 45)
    assert after[0][0] == pytest.approx(0.8 - DOTS.limits.acceleration * DT)
    assert after[-1] == REST
    assert health.counts == {"command.too_old": 1}
    assert controller.mode is Mode.IDLE
    # A ramp, not a jump.
    assert np.diff([v[0] for v in after]).min() >= -DOTS.limits.acceleration * DT * (1 + 1e-9)


@pytest.mark.parametrize("bad", [(math.nan, 0, 0), (0, math.inf, 0), (0, 0, -math.inf)])
def test_commands_that_are_not_finite_are_refused(bad: tuple[float, float, float]) -> None:
    health = Health()
    controller = MotionController(DOTS, health)
    controller.command((0.1, 0.0, 0.0), 0.0)
    assert not controller.command(bad, 0.0)
    assert not controller.command((0.5, 0.0, 0.0), math.nan)
    assert health.counts == {"command.not_finite": 2}
    assert drive(controller, 0.0, 20)[-1] == pytest.approx((0.1, 0.0, 0.0))


def test_a_command_from_the_future_stops() -> None:
    health = Health()
    controller = MotionController(DOTS, health)
    controller.command((0.5, 0.0, 0.0), 0.0)
    drive(controller, 0.0, 10)
    controller.command((0.5, 0.0, 0.0), 7.0)
    assert drive(controller, 0.1, 20)[-1] == REST
    assert health.counts == {"command.from_future": 1}


def test_a_clock_that_steps_back_stops() -> None:
    health = Health()
    controller = MotionController(DOTS, health)
    controller.command((0.2, 0.0, 0.0), 100.0)
    reached = drive(controller, 100.0, 20)[-1]
    ramp = drive(controller, 50.0, 20)
    assert ramp[0][0] == pytest.approx(reached[0] - DOTS.limits.acceleration * DT)
    assert ramp[-1] == REST
    assert health.counts == {"clock.backwards": 1}
    controller.command((0.2, 0.0, 0.0), 51.0)
    assert drive(controller, 51.0, 20)[-1] == pytest.approx((0.2, 0.0, 0.0))
    for bad in (math.nan, math.inf):
        assert np.isfinite(controller.drive(bad)).all()
    assert drive(controller, 51.2, 20)[-1] == REST
    assert health.counts == {"clock.backwards": 1, "clock.not_finite": 2}


def test_stop_ramps_down_from_a_path_too() -> None:
    controller = MotionController(DOTS)
    controller.track(0.0, REST, REST, Setpoint(REST, (1.0, 0.0, 2.0)))
    before = controller.v_body
    controller.stop()
    after = drive(controller, DT, 1)[0]
    changed = np.diff(over_the_floor([before, after]), axis=0)[0]
    assert math.hypot(*changed[:2]) == pytest.approx(DOTS.limits.acceleration * DT)
    assert drive(controller, 2 * DT, 60)[-1] == REST


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e308])
@pytest.mark.parametrize("where", ["pose", "velocity", "setpoint", "acceleration"])
def test_estimates_that_are_not_finite_ramp_down(bad: float, where: str) -> None:
    health = Health()
    controller = MotionController(DOTS, health)
    good = Setpoint(REST, (0.1, 0.0, 0.0))
    for i in range(3):
        controller.track(i * DT, REST, REST, good)
    three = (bad, bad, 0.0)
    pose, velocity = (three if where == "pose" else REST), (three if where == "velocity" else REST)
    setpoint = good._replace(pose=three) if where == "setpoint" else good
    setpoint = good._replace(acceleration=three) if where == "acceleration" else setpoint
    for i in range(10):
        speeds = controller.track((3 + i) * DT, pose, velocity, setpoint)
        assert np.isfinite(speeds).all()
    assert controller.v_body == REST
    assert health.counts == {"control.not_finite": 10}
    assert controller.track(0.2, REST, REST, good).any()


ROBOTS = {
    spec.kind: (spec, parameters(spec), Kinematics.of(spec).matrix)
    for spec in (DOTS, RobotSpec.load("pioneer3dx"))
}
numbers = st.floats(-1e300, 1e300)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ROBOTS)), st.lists(numbers, min_size=15, max_size=15), st.floats(0.0, 0.05))
def test_kernels_stay_finite_and_within_the_wheels(kind: str, values: list[float], dt: float) -> None:
    spec, constants, matrix = ROBOTS[kind]
    assert bool(constants[HOLONOMIC]) == spec.holonomic
    state, wheels = np.zeros(6), np.empty(len(matrix))
    for _ in range(2):
        factor = track_k(state, constants, matrix, wheels, *values, dt)
        assert 0.0 <= factor <= 1.0
        assert np.isfinite(state).all()
        assert np.abs(wheels).max() <= spec.drive.wheels.max_speed
        slew_k(state, constants, matrix, wheels, *values[:3], dt)
        assert np.isfinite(state).all()
        assert np.abs(wheels).max() <= spec.drive.wheels.max_speed
