"""Paths: what is refused, how they are played, and that no limit is ever broken."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruckig import ControlInterface, InputParameter, Result, Ruckig, RuckigError, Trajectory
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import compose, rotate, wrap
from swarmbed_core.health import Health
from swarmbed_core.spec import Limits, RobotSpec
from swarmbed_core.trajectory import (
    MAX_WAYPOINTS,
    Path,
    PathPlayer,
    PlayerState,
    Setpoint,
    Waypoint,
    _box,
    _Top,
)
from swarmbed_core.trajectory_check import Worst, random_case, random_path

if TYPE_CHECKING:
    from collections.abc import Iterator

DT = 0.01
ORIGIN = (0.0, 0.0, 0.0)
LIMITS = RobotSpec.load("dots").limits
# Shares of a limit: rounding only.
WITHIN = 1 + 1e-6


def to(*poses: tuple[float, float, float], **options: Any) -> Path:
    return Path(tuple(Waypoint(pose) for pose in poses), **options)


def player(*, holonomic: bool = True) -> PathPlayer:
    return PathPlayer(LIMITS, holonomic=holonomic)


def play(robot: PathPlayer, dt: float = DT, longest: float = 60.0) -> Iterator[Setpoint]:
    """Yield every set-point until the player is idle."""
    for _ in range(int(longest / dt)):
        yield robot.advance(dt)
        if not robot.active:
            return
    pytest.fail(f"still {robot.state} after {longest} s")


def fast(robot: PathPlayer, angle: float = 0.0) -> Setpoint:
    """Bring a robot to its full speed, without acceleration."""
    robot.follow(to((20 * math.cos(angle), 20 * math.sin(angle), 0.0)), ORIGIN)
    return robot.advance(3.0)


def limits_in_force(robot: PathPlayer) -> tuple[float, float]:
    """Return the limits of speed and acceleration: the previous path's until the new one takes effect."""
    top = robot._top if robot._segment is None else robot._segment.top
    return top.speed, top.acceleration


def speed_of(setpoint: Setpoint) -> float:
    return math.hypot(*setpoint.velocity[:2])


def effort_of(setpoint: Setpoint) -> float:
    return math.hypot(*setpoint.acceleration[:2])


# What is refused


@pytest.mark.parametrize(
    ("pose", "velocity"),
    [
        ((0.0, math.nan, 0.0), ORIGIN),
        ((math.inf, 0.0, 0.0), ORIGIN),
        (ORIGIN, (0.0, 0.0, -math.inf)),
        ((0.0, 0.0), ORIGIN),
        ((0.0, 0.0, 0.0, 0.0), ORIGIN),
        (("left", 0.0, 0.0), ORIGIN),
        (None, ORIGIN),
        (ORIGIN, 1.0),
        ((10**400, 0, 0), ORIGIN),
    ],
)
def test_waypoints_that_are_none(pose: Any, velocity: Any) -> None:
    with pytest.raises(PathError, match="of a waypoint is"):
        Waypoint(pose, velocity)


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ({"waypoints": ()}, "0 waypoints"),
        ({"waypoints": (Waypoint(ORIGIN),) * (MAX_WAYPOINTS + 1)}, "1001 waypoints"),
        ({"waypoints": (Waypoint(ORIGIN), ORIGIN)}, "waypoint 1 is"),
        ({"frame": "moon"}, "'moon'"),
        ({"max_speed": 0.0}, "max_speed"),
        ({"max_speed": math.nan}, "max_speed"),
        ({"max_acceleration": -1.0}, "max_acceleration"),
        ({"max_acceleration": math.inf}, "max_acceleration"),
        ({"max_acceleration": "high"}, "max_acceleration"),
    ],
)
def test_paths_that_are_none(path: dict[str, Any], match: str) -> None:
    with pytest.raises(PathError, match=match):
        Path(**({"waypoints": (Waypoint(ORIGIN),)} | path))


@pytest.mark.parametrize(
    ("path", "match"),
    [
        (Path((Waypoint(ORIGIN), Waypoint((1, 0, 0), (1.5, 1.5, 0.0)))), "waypoint 1 asks for 2.12132 m/s"),
        (Path((Waypoint((1, 0, 0), (0.5, 0, 0)),), max_speed=0.4), "the limit is 0.4 m/s"),
        (Path((Waypoint((1, 0, 0), (0, 0, -6.1)),)), "6.1 rad/s"),
        (to((1, 0, 0), max_acceleration=4.1), "max_acceleration 4.1"),
        (to((1, 0, 0), (1, 10_002, 0)), "waypoint 1 is 10002 m"),
        (to((-10_001, 0, 0)), "waypoint 0 is 1000[0-9.]+ m"),
        (to((1e308, 0, 0), (-1e308, 0, 0)), "waypoint 1 is inf m"),
        (to((1, 0, 0), frame="map"), "in_odom"),
    ],
)
def test_a_refused_path_changes_nothing(path: Path, match: str) -> None:
    robot, other = player(), player()
    for one in (robot, other):
        fast(one)
    with pytest.raises(PathError, match=match):
        robot.follow(path, ORIGIN)
    assert list(play(robot)) == list(play(other))


def test_a_differential_robot_stops_at_waypoints() -> None:
    robot = player(holonomic=False)
    with pytest.raises(PathError, match="differential"):
        robot.follow(Path((Waypoint((1, 0, 0), (0.1, 0, 0)),)), ORIGIN)
    assert not robot.active


@pytest.mark.parametrize("dt", [-0.01, math.nan, math.inf, -math.inf])
def test_bad_steps_are_counted(dt: float) -> None:
    health = Health()
    robot = PathPlayer(LIMITS, holonomic=True, health=health)
    before = fast(robot)
    assert robot.advance(dt) == before
    assert health.counts == {"trajectory.bad_step": 1}
    assert robot.advance(0.0) == before


def test_poses_that_are_none() -> None:
    robot = player()
    for refused in (
        lambda: robot.follow(to((1, 0, 0)), (0.0, math.nan, 0.0)),
        lambda: robot.start_moving(ORIGIN, (math.inf, 0.0, 0.0)),
        lambda: robot.start_moving((math.nan, 0.0, 0.0), ORIGIN),
        lambda: robot.reset((0.0, 0.0, math.nan)),
        lambda: to((1, 0, 0)).in_odom((0.0, 0.0, math.nan)),
    ):
        with pytest.raises(PathError):
            refused()
    assert robot.setpoint == Setpoint(ORIGIN)


# How a path is played


def test_straight_on_the_line_at_full_speed() -> None:
    robot = player()
    robot.follow(to((8.0, 6.0, 0.0)), ORIGIN)
    assert robot.state is PlayerState.FOLLOWING
    setpoints = list(play(robot))
    across = [abs(0.8 * s.pose[1] - 0.6 * s.pose[0]) for s in setpoints]
    assert max(across) < 1e-12
    assert max(map(speed_of, setpoints)) == pytest.approx(LIMITS.speed, rel=1e-9)
    assert max(map(effort_of, setpoints)) == pytest.approx(LIMITS.acceleration, rel=1e-9)
    # The shortest time there is: full speed, and ramps of v/a + a/j at both ends.
    shortest = 10 / 2 + 2 / 2 + 2 / 20
    assert len(setpoints) * DT == pytest.approx(shortest, abs=1.5 * DT)
    assert robot.setpoint == Setpoint((8.0, 6.0, 0.0))
    assert (robot.waypoint, robot.progress, robot.time_remaining) == (1, 1.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_passes_every_waypoint_with_its_velocity(seed: int) -> None:
    robot = player()
    path = random_path(np.random.default_rng([1, seed]), LIMITS)
    robot.follow(path, ORIGIN)
    passed = 0
    for _ in range(200):
        segment = robot._segment
        assert segment is not None
        setpoint = robot.advance(segment.duration - robot._t)
        if segment.arrives:
            pose, velocity = path.waypoints[passed].pose, path.waypoints[passed].velocity
            assert setpoint.pose[:2] == pytest.approx(pose[:2], abs=1e-9)
            assert wrap(setpoint.pose[2] - pose[2]) == pytest.approx(0.0, abs=1e-9)
            assert setpoint.velocity == pytest.approx(velocity, abs=1e-9)
            # Not only the plan's book-keeping: the motion itself ends there.
            end = segment.trajectory.at_time(segment.duration)
            assert rotate(end[0][:2], math.atan2(segment.box.s, segment.box.c)) + segment.origin[:2] == (
                pytest.approx(np.array(pose[:2]), abs=1e-6)
            )
            passed += 1
            assert robot.waypoint == passed
        if passed == len(path.waypoints):
            break
    assert passed == len(path.waypoints)
    moving = any(path.waypoints[-1].velocity)
    assert robot.state is (PlayerState.BRAKING if moving else PlayerState.IDLE)
    assert list(play(robot))[-1].velocity == ORIGIN
    assert robot.progress == 1.0


def test_set_points_do_not_depend_on_the_steps() -> None:
    path = random_path(np.random.default_rng(4), LIMITS)
    one, other = player(), player()
    for robot in (one, other):
        robot.follow(path, ORIGIN)
    for steps in np.random.default_rng(5).integers(1, 40, 40):
        coarse = one.advance(0.01 * int(steps))
        for _ in range(steps):
            fine = other.advance(0.01)
        np.testing.assert_allclose(np.array(coarse), np.array(fine), atol=1e-9)


def test_turns_the_short_way_round() -> None:
    robot = player()
    robot.follow(to((0, 0, -3.0)), (0, 0, 3.0))
    yaws = [s.pose[2] for s in play(robot)]
    assert yaws == sorted(yaws)
    assert yaws[-1] == pytest.approx(2 * math.pi - 3.0)


def test_a_thousand_waypoints() -> None:
    robot = player()
    spiral = [
        (0.01 * i * math.cos(0.1 * i), 0.01 * i * math.sin(0.1 * i), 0.05 * i) for i in range(MAX_WAYPOINTS)
    ]
    robot.follow(to(*spiral), ORIGIN)
    done = []
    while robot.active:
        robot.advance(0.5)
        done.append(robot.progress)
    assert done == sorted(done)
    assert robot.setpoint.pose[:2] == pytest.approx(spiral[-1][:2])
    assert robot.waypoint == MAX_WAYPOINTS


def test_a_thousand_times_the_same_place() -> None:
    for holonomic in (True, False):
        robot = player(holonomic=holonomic)
        robot.follow(to(*[(1.0, 0.0, 0.0)] * MAX_WAYPOINTS), ORIGIN)
        assert 0.0 <= robot.progress < 1.0
        robot.advance(5.0)
        assert not robot.active
        robot.follow(to((1.0, 0.0, 0.0)), robot.setpoint.pose)
        assert robot.progress == 0.0
        robot.advance(DT)
        assert robot.state is PlayerState.IDLE


def test_progress_and_time_remaining() -> None:
    robot = player()
    assert (robot.progress, robot.time_remaining, robot.path) == (0.0, 0.0, None)
    path = to((2, 0, 0), (2, 2, 1), (0.1, 2, 1), (0.05, 2.05, 3))
    robot.follow(path, ORIGIN)
    estimate = robot.time_remaining
    progress, remaining = [], []
    for _ in play(robot):
        progress.append(robot.progress)
        remaining.append(robot.time_remaining)
    assert progress == sorted(progress)
    assert max(np.diff(remaining)) < 0.05
    assert estimate == pytest.approx(len(progress) * DT, rel=0.25)
    # On the last stretch it is exact.
    assert remaining[-20] == pytest.approx(remaining[-10] + 10 * DT)


def test_what_a_player_knows() -> None:
    robot = player(holonomic=False)
    assert (robot.limits, robot.holonomic) == (LIMITS, False)
    path = to((1, 0, 0), max_speed=0.5, max_acceleration=3.0)
    robot.follow(path, ORIGIN)
    assert robot.path is path
    assert limits_in_force(robot) == (0.5, 3.0)
    robot.cancel()
    assert robot.path is None
    assert robot.time_remaining == 0.0


def test_in_odom() -> None:
    pose = (3.0, -2.0, 2.5)
    path = Path((Waypoint((1, 2, 1), (0.3, 0.4, 0.5)),), "base_link", 1.0, 1.5).in_odom(pose)
    assert (path.frame, path.max_speed, path.max_acceleration) == ("odom", 1.0, 1.5)
    assert path.waypoints[0].pose == pytest.approx(tuple(compose(pose, (1, 2, 1))))
    assert path.waypoints[0].velocity == pytest.approx((*rotate((0.3, 0.4), 2.5), 0.5))


def test_full_speed_survives_turning_the_frame() -> None:
    robot = player()
    for angle in np.linspace(-3, 3, 50):
        straight = Path((Waypoint((3, 4, 0), (1.2, 1.6, 6.0)),), "map", 2.0)
        robot.follow(straight.in_odom((0.1, 0.2, angle)), ORIGIN)
        robot.stop_hard()


# Limits


def lives(limits: Limits, count: int, seed: int, *, holonomic: bool) -> Worst:
    worst = Worst()
    for i in range(count):
        worst = worst.merge(random_case(np.random.default_rng([seed, i]), limits, holonomic=holonomic))
    return worst


def test_no_limit_is_ever_broken(any_spec: RobotSpec) -> None:
    worst = lives(any_spec.limits, 300 if any_spec.kind == "dots" else 50, 11, holonomic=any_spec.holonomic)
    assert worst.worst <= WITHIN, worst
    assert worst.refused == 0.0
    # They are used, too: a player that never moves would pass otherwise.
    assert min(worst[1:6]) > 0.9, worst


positive = st.floats(0.05, 50.0)


@settings(max_examples=100, deadline=None)
@given(st.tuples(*[positive] * 7), st.integers(0, 2**32), st.booleans())
def test_no_limit_is_ever_broken_whatever_it_is(
    numbers: tuple[float, ...], seed: int, holonomic: bool
) -> None:
    limits = Limits(
        speed=numbers[0],
        acceleration=min(numbers[1:3]),
        acceleration_available=max(numbers[1:3]),
        jerk=numbers[3],
        yaw_rate=numbers[4],
        yaw_acceleration=numbers[5],
        yaw_jerk=numbers[6],
    )
    worst = random_case(np.random.default_rng(seed), limits, holonomic=holonomic)
    assert worst.worst <= WITHIN, worst


def test_the_check_sees_axes_that_forget_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits for each axis alone, as Ruckig has them, are not what a robot has."""
    monkeypatch.setattr("swarmbed_core.trajectory._rectangle", lambda radius, *_: (radius, radius))
    assert lives(LIMITS, 30, 12, holonomic=True).worst > 1.1


def test_the_check_sees_jumps_and_nans(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = PathPlayer.advance

    def jumping(robot: PathPlayer, dt: float) -> Setpoint:
        x, y, yaw = honest(robot, dt).pose
        return robot.setpoint._replace(pose=(x + (1.0 if robot.waypoint else 0.0), y, yaw))

    def broken(robot: PathPlayer, dt: float) -> Setpoint:
        return honest(robot, dt)._replace(acceleration=(math.nan, 0.0, 0.0))

    monkeypatch.setattr(PathPlayer, "advance", jumping)
    assert lives(LIMITS, 30, 13, holonomic=True).jump > 1.1
    monkeypatch.setattr(PathPlayer, "advance", broken)
    assert lives(LIMITS, 3, 13, holonomic=True).worst == math.inf


share = st.floats(-1.0, 1.0)


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(share, share), st.tuples(share, share), st.tuples(share, share), share, st.floats(0.02, 1.55)
)
def test_boxes_hold_what_they_should(
    v: tuple[float, float], a: tuple[float, float], goal: tuple[float, float], theta: float, half: float
) -> None:
    """A box is in the circles and has room for the speed that comes before the acceleration is gone."""
    top, jerk = _Top(2.0, 4.0), 20.0
    state = Setpoint(ORIGIN, (2 * v[0], 2 * v[1], 0.0), (4 * a[0], 4 * a[1], 0.0))
    box = _box(3 * theta, half, top, jerk, state, (2 * goal[0], 2 * goal[1]))
    if box is None:
        return
    assert math.hypot(*box.velocity) <= 2.0 * WITHIN
    assert math.hypot(*box.acceleration) <= 4.0 * WITHIN
    assert math.hypot(*box.jerk) <= 20.0 * WITHIN
    turn = -math.atan2(box.s, box.c)
    ends, efforts = rotate((2 * goal[0], 2 * goal[1]), turn), rotate(state.acceleration[:2], turn)
    for i, speed in enumerate(rotate(state.velocity[:2], turn)):
        assert abs(ends[i]) <= box.velocity[i] * WITHIN
        assert abs(efforts[i]) <= box.acceleration[i] * WITHIN
        assert abs(speed + efforts[i] * abs(efforts[i]) / (2 * box.jerk[i])) <= box.velocity[i] * WITHIN


def test_a_slower_path_slows_down_at_once() -> None:
    robot = player()
    fast(robot)
    robot.follow(to((20, 5, 0), max_speed=0.5, max_acceleration=1.0), ORIGIN)
    assert limits_in_force(robot) == (2.0, 2.0)
    speeds = [speed_of(setpoint) for setpoint in play(robot, longest=90)]
    below = next(i for i, speed in enumerate(speeds) if speed <= 0.5 * WITHIN)
    assert below * DT < 1.5 / 2 + 2 / 20 + 1.0
    assert max(speeds[below:]) <= 0.5 * WITHIN
    assert max(speeds) <= 2.0 * WITHIN


def test_a_path_may_ask_for_all_there_is() -> None:
    robot = player()
    robot.follow(to((3, 0, 0), max_acceleration=LIMITS.acceleration_available), ORIGIN)
    assert max(map(effort_of, play(robot))) == pytest.approx(4.0, rel=1e-9)


# Replacing and cancelling


@pytest.mark.parametrize("time", [0.05, 0.3, 0.55, 1.3, 2.0])
def test_cancel_stops_as_fast_as_it_can(time: float) -> None:
    robot = player()
    robot.follow(to((3, 4, 2)), ORIGIN)
    before = robot.advance(time)
    robot.cancel()
    assert robot.state is PlayerState.BRAKING
    speed, effort = speed_of(before), effort_of(before)
    setpoints = list(play(robot))
    bound = (speed + effort**2 / 40) / 2 + 2 / 20 + effort / 20
    assert len(setpoints) * DT <= bound + DT + 1e-9
    if speed > 0.5:
        assert max(map(effort_of, setpoints)) == pytest.approx(LIMITS.acceleration, rel=1e-6)
    assert setpoints[-1].velocity == ORIGIN
    assert not robot.active
    robot.cancel()
    assert robot.state is PlayerState.IDLE


@pytest.mark.parametrize("seed", range(40))
def test_cancel_stops_in_time_from_any_motion(seed: int) -> None:
    rng = np.random.default_rng([2, seed])
    robot = player()
    for _ in range(rng.integers(1, 4)):
        robot.follow(random_path(rng, LIMITS), ORIGIN)
        before = robot.advance(rng.exponential(0.4))
    _, acceleration = limits_in_force(robot)
    robot.cancel()
    turning = LIMITS.yaw_rate / LIMITS.yaw_acceleration + 2 * LIMITS.yaw_acceleration / LIMITS.yaw_jerk
    effort = effort_of(before)
    bound = (speed_of(before) + effort**2 / 40) / acceleration + acceleration / 20 + effort / 20
    # A quarter more at worst, where acceleration and velocity point elsewhere.
    assert len(list(play(robot))) * DT <= max(1.25 * bound, turning) + DT


def test_braking_at_the_end_of_a_path() -> None:
    robot = player()
    robot.follow(Path((Waypoint((3, 0, 0), (1.0, 0.0, 0.0)),)), ORIGIN)
    setpoints = list(play(robot))
    # 1 m/s at 2 m/s2, and half of the jerk's time at that speed.
    assert setpoints[-1].pose == pytest.approx((3 + 1 / 4 + 0.05, 0, 0), abs=1e-6)
    assert robot.progress == 1.0


def test_replacing_does_not_jump() -> None:
    robot = player()
    robot.follow(to((3, 0, 0)), ORIGIN)
    before = robot.advance(0.4)
    robot.follow(to((0, 3, 1)), (9.0, 9.0, 9.0))
    assert robot.setpoint == before
    after = robot.advance(1e-6)
    np.testing.assert_allclose(np.array(after), np.array(before), atol=1e-3)
    assert list(play(robot))[-1].pose == pytest.approx((0, 3, 1))


def test_a_hairpin_at_full_speed_takes_no_detour() -> None:
    """Boxes must not be so narrow that turning takes for ever."""
    for angle in np.linspace(0.0, math.pi, 13):
        robot = player()
        fast(robot)
        x = robot.setpoint.pose[0]
        robot.follow(to((x + 3 * math.cos(angle), 3 * math.sin(angle), 0)), ORIGIN)
        braked = 2 / 2 + 2 / 20
        back = math.hypot(3, 2.2) / 2 + 2 / 2 + 2 / 20
        assert len(list(play(robot))) * DT < braked + back + 0.1


def test_start_moving() -> None:
    robot = player()
    robot.start_moving((1, 2, 0.5), (0.6, 0.8, 1.0))
    assert robot.setpoint == Setpoint((1, 2, 0.5), (0.6, 0.8, 1.0))
    assert robot.state is PlayerState.BRAKING
    robot.follow(to((3, 3, 0)), ORIGIN)
    assert robot.setpoint.pose == (1, 2, 0.5)
    assert list(play(robot))[-1].pose == pytest.approx((3, 3, 0))
    robot.start_moving((1, 2, 0.5), (30.0, 40.0, -100.0))
    assert robot.setpoint.velocity == pytest.approx((1.2, 1.6, -6.0))
    assert list(play(robot))[-1].velocity == ORIGIN


def test_stop_hard_and_reset() -> None:
    robot = player()
    before = fast(robot)
    robot.stop_hard()
    assert robot.setpoint == Setpoint(before.pose)
    robot.follow(to((9, 9, 0), max_speed=0.1), ORIGIN)
    robot.advance(1.0)
    robot.reset((7, 8, 9))
    assert robot.advance(DT) == Setpoint((7, 8, 9))
    assert (robot.state, limits_in_force(robot)[0]) == (PlayerState.IDLE, 2.0)


# Differential robots


def along_heading(setpoint: Setpoint) -> None:
    c, s = math.cos(setpoint.pose[2]), math.sin(setpoint.pose[2])
    assert abs(c * setpoint.velocity[1] - s * setpoint.velocity[0]) < 1e-9


def test_differential_turns_drives_and_turns() -> None:
    robot = player(holonomic=False)
    robot.follow(to((1, 1, 2.0), (1, -1, -3.0), (1, -1, 3.0)), (0, 0, 1.0))
    corners = {}
    for setpoint in play(robot):
        along_heading(setpoint)
        assert abs(setpoint.velocity[2]) * speed_of(setpoint) == 0.0
        corners[robot.waypoint] = setpoint.pose
    assert robot.setpoint.pose[:2] == pytest.approx((1, -1), abs=1e-9)
    assert wrap(robot.setpoint.pose[2] - 3.0) == pytest.approx(0.0, abs=1e-9)
    assert robot.setpoint.velocity == ORIGIN
    # The yaws of waypoints on the way are not used.
    assert corners[1][2] == pytest.approx(-math.pi / 2)


@pytest.mark.parametrize("time", [0.1, 0.3, 0.9, 1.5, 2.0])
def test_differential_brakes_before_a_new_path(time: float) -> None:
    robot = player(holonomic=False)
    robot.follow(to((-2, 1, 0)), ORIGIN)
    robot.advance(time)
    robot.follow(to((2, 2, 1)), ORIGIN)
    assert robot.state is PlayerState.FOLLOWING
    for setpoint in play(robot):
        along_heading(setpoint)
    assert robot.setpoint.pose == pytest.approx((2, 2, 1), abs=1e-9)
    assert robot.progress == 1.0


def test_differential_takes_over_an_arc() -> None:
    robot = player(holonomic=False)
    robot.start_moving((0, 0, 0.5), (*rotate((1.0, 0.3), 0.5), 2.0))
    assert speed_of(robot.setpoint) == pytest.approx(1.0)
    old = robot.setpoint
    arc = list(play(robot, 0.001))
    for setpoint in arc:
        along_heading(setpoint)
        # The place is the integral of the velocity.
        moved = np.subtract(setpoint.pose, old.pose)
        mean = (np.array(setpoint.velocity) + old.velocity) / 2
        np.testing.assert_allclose(moved, mean * 0.001, atol=2e-8)
        old = setpoint
    # Another step size drives the same arc, and so does one giant step.
    for dt in (0.013, 5.0):
        robot.start_moving((0, 0, 0.5), (*rotate((1.0, 0.3), 0.5), 2.0))
        assert list(play(robot, dt))[-1].pose == pytest.approx(arc[-1].pose, abs=1e-6)


def test_differential_follows_and_cancels_out_of_an_arc() -> None:
    robot = player(holonomic=False)
    robot.start_moving(ORIGIN, (1.0, 0.0, 2.0))
    robot.advance(0.1)
    robot.follow(to((2, 2, 1)), ORIGIN)
    before = robot.setpoint
    after = robot.advance(1e-6)
    np.testing.assert_allclose(np.array(after), np.array(before), atol=1e-3)
    assert list(play(robot))[-1].pose == pytest.approx((2, 2, 1), abs=1e-9)
    robot.start_moving(ORIGIN, (1.0, 0.0, 2.0))
    robot.advance(0.1)
    robot.follow(to((2, 2, 1)), ORIGIN)
    robot.advance(0.1)
    robot.cancel()
    assert robot.state is PlayerState.BRAKING
    assert list(play(robot))[-1].velocity == ORIGIN
    assert math.hypot(*robot.setpoint.pose[:2]) < 1.0


# When Ruckig finds no way


class Stuck:
    """A Ruckig that gives up on positions, or on everything."""

    def __init__(self, *, everything: bool) -> None:
        self.everything = everything

    def calculate(self, problem: InputParameter, trajectory: Trajectory) -> Any:
        if self.everything:
            return Result.Error
        if problem.control_interface == ControlInterface.Position:
            raise RuckigError
        return Ruckig(3).calculate(problem, trajectory)


def test_the_check_counts_refused_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarmbed_core.trajectory.Ruckig", lambda _: Stuck(everything=False))
    assert lives(LIMITS, 5, 14, holonomic=True).refused == 2.0


def test_no_way_to_start_with() -> None:
    robot = player()
    fast(robot)
    robot._ruckig = Stuck(everything=False)  # type: ignore[assignment]
    with pytest.raises(PathError, match="no trajectory found"):
        robot.follow(to((1, 1, 0)), ORIGIN)
    assert robot.state is PlayerState.FOLLOWING
    resting = player(holonomic=False)
    resting._ruckig = Stuck(everything=False)  # type: ignore[assignment]
    for pose in ((1, 0, 0), (1, 1, 0), (0, 0, 1)):
        with pytest.raises(PathError, match="no trajectory found"):
            resting.follow(to(pose), ORIGIN)


@pytest.mark.parametrize("holonomic", [True, False])
@pytest.mark.parametrize("everything", [True, False])
def test_no_way_later_on(everything: bool, holonomic: bool) -> None:
    health = Health()
    robot = PathPlayer(LIMITS, holonomic=holonomic, health=health)
    velocity = (1.0, 0, 0) if holonomic else ORIGIN
    robot.follow(Path((Waypoint((1, 0, 0), velocity), Waypoint((1, 1, 0)))), ORIGIN)
    robot._ruckig = Stuck(everything=everything)  # type: ignore[assignment]
    setpoints = list(play(robot))
    assert health.counts["trajectory.no_way"] == (2 if everything else 1)
    assert setpoints[-1].velocity == ORIGIN
    assert all(map(math.isfinite, np.ravel(setpoints)))
    robot._ruckig = Ruckig(3)
    robot.follow(to((0, 0, 0)), ORIGIN)
    assert list(play(robot))[-1].pose[:2] == pytest.approx((0, 0), abs=1e-9)
    moving = player(holonomic=holonomic)
    fast(moving)
    moving._ruckig = Stuck(everything=True)  # type: ignore[assignment]
    moving.cancel()
    assert moving.setpoint.velocity == ORIGIN
