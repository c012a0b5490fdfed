from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.geometry import wrap
from swarmbed_core.led import (
    AGAIN,
    AHEAD,
    BLOCKED,
    EARLY,
    FAR,
    FAST,
    FLOOD,
    JUMP,
    MALFORMED,
    NOT_FINITE,
    OLD,
    REPEATED,
    ROUNDS,
    SETTLE,
    SIMULATED,
    SINK,
    SLACK,
    TOLD,
    UNKNOWN,
    Led,
    Telling,
    Tellings,
    press_k,
)
from swarmbed_core.orders import OrderError, Orders, Told, as_json, from_json
from swarmbed_core.raycast import box_segments
from swarmbed_core.scenario import TrackedBody
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
RADIUS = DOTS.body.bounding_radius
TOP = 2 * DOTS.limits.speed
DT = 0.01
ARENA = box_segments(np.zeros(3), 4.0, 4.0)
"""Walls at 2 m."""


class Bodies:
    """Led bodies that go where `Led` says, among walls."""

    def __init__(self, poses=((0.0, 0.0, 0.0),), segments=ARENA, pillars=(), options=None, free=True):
        self.led = Led(DT)
        self.segments = np.asarray(segments, dtype=np.float64).reshape(-1, 4)
        self.pillars = np.asarray(pillars, dtype=np.float64).reshape(-1, 3)
        self.poses = np.array(poses, dtype=np.float64)
        self.rows = np.arange(len(poses))
        self.told = np.zeros((len(poses), TOLD))
        self.time = 0.0
        self.ticks = 0
        self.free = free
        self.appeared = []
        for i, pose in enumerate(poses):
            self.led.add(f"dots{i + 1}", DOTS, pose, options or TrackedBody(), 0.0)

    def tell(self, *tellings):
        self.led.tell(Tellings.of(tellings), self.time, {"simulated1"})

    def step(self, steps=1):
        for _ in range(steps):
            self.ticks += 1
            self.time = self.ticks * DT
            for k in self.led.follow(
                self.time, self.rows, self.poses, self.segments, self.pillars, self.told
            ):
                if self.free:
                    self.told[k, :3] = self.led.aim(k)
                    self.appeared.append(k)
                self.led.appeared(k, self.time, there=self.free)
            self.poses[:] = self.told[:, :3]
            self.poses[:, 2] = [wrap(yaw) for yaw in self.poses[:, 2]]

    @property
    def state(self):
        return self.led.state(self.time)

    def refused(self, name="dots1"):
        return {reason: counts[name] for reason, counts in self.state.refused.items() if name in counts}


def test_a_body_moves_on_with_its_told_velocity():
    bodies = Bodies(((0.0, 0.0, 0.3),))
    bodies.tell(Telling("dots1", 0.0, (0.0, 0.0, 0.3), (0.5, 0.2, 1.2)))
    for steps in range(1, 41):
        bodies.step()
        t = steps * DT
        # The closed form of a constant velocity in the body's frame.
        c, s = math.sin(1.2 * t) / 1.2, (1 - math.cos(1.2 * t)) / 1.2
        x, y = 0.5 * c - 0.2 * s, 0.5 * s + 0.2 * c
        at = math.cos(0.3) * x - math.sin(0.3) * y, math.sin(0.3) * x + math.cos(0.3) * y, 0.3 + 1.2 * t
        assert bodies.poses[0] == pytest.approx(at, abs=1e-12)
        assert bodies.told[0, 3:6] == pytest.approx((0.5, 0.2, 1.2))
        assert bodies.told[0, 6:] == pytest.approx((0.5, 0.2, 1.2))
    assert bodies.state.off[0] == pytest.approx(0.0, abs=1e-12)
    assert bodies.state.ages[0] == pytest.approx(0.4)
    assert bodies.state.taken[0] == 1
    assert not bodies.state.refused


def test_late_tellings_are_of_their_own_time():
    bodies = Bodies()
    bodies.step(30)
    bodies.tell(Telling("dots1", 0.2, (0.3, 0.0, 0.0), (0.5, 0.0, 0.0)))
    bodies.step()
    assert bodies.poses[0, 0] == pytest.approx(0.3 + 0.5 * 0.11)
    # So are those that are a little ahead: this one says the same as the first.
    bodies.tell(Telling("dots1", 0.31 + AHEAD, (0.3 + 0.5 * (0.11 + AHEAD), 0.0, 0.0), (0.5, 0.0, 0.0)))
    bodies.step()
    assert bodies.poses[0, 0] == pytest.approx(0.3 + 0.5 * 0.12)


def test_errors_are_corrected_gently():
    bodies = Bodies()
    bodies.tell(Telling("dots1", 0.0, (0.0, 0.0, 0.0), (0.5, 0.0, 0.0)))
    bodies.step(10)
    bodies.tell(Telling("dots1", 0.1, (0.05, 0.02, 0.1), (0.5, 0.0, 0.0)))
    for steps in range(1, 21):
        bodies.step()
        left = math.exp(-steps * DT / SETTLE)
        x, y = 0.05 + 0.5 * steps * DT * math.cos(0.1), 0.02 + 0.5 * steps * DT * math.sin(0.1)
        assert bodies.poses[0] == pytest.approx((x, y - 0.02 * left, 0.1 - 0.1 * left), abs=1e-9)
        # Corrections are no velocity.
        assert bodies.told[0, 3:] == pytest.approx((0.5, 0, 0, 0.5, 0, 0))
    assert bodies.state.off[0] == pytest.approx(0.02 * math.exp(-0.2 / SETTLE))


def test_a_robot_that_is_told_nothing_is_lost_and_stands_until_it_is_found():
    bodies = Bodies(options=TrackedBody(patience=0.3))
    bodies.tell(Telling("dots1", 0.0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.5)))
    bodies.step(30)
    assert not bodies.state.lost[0]
    assert bodies.told[0, 3] == 1.0
    bodies.step()
    state = bodies.state
    assert state.lost[0]
    assert state.losses[0] == 1
    assert state.lost_for[0] == pytest.approx(0.01)
    there = bodies.poses.copy()
    bodies.step(50)
    assert bodies.poses == pytest.approx(there, abs=1e-12)
    assert (bodies.told[0, 3:] == 0).all()
    assert bodies.state.lost_for[0] == pytest.approx(0.51)
    bodies.tell(Telling("dots1", bodies.time, (0.5, 0.2, 1.0), (0.2, 0.0, 0.0)))
    assert not bodies.state.lost[0]
    assert bodies.state.lost_for[0] == 0
    bodies.step()
    # It appears where it was found.
    assert bodies.appeared == [0]
    assert bodies.poses[0, :2] == pytest.approx(
        (0.5 + 0.002 * math.cos(1.0), 0.2 + 0.002 * math.sin(1.0)), abs=1e-9
    )
    assert bodies.state.losses[0] == 1


def test_a_robot_that_was_never_told_is_lost_too():
    bodies = Bodies(options=TrackedBody(patience=0.2))
    assert bodies.state.ages[0] == math.inf
    bodies.step(21)
    assert bodies.state.lost[0]
    assert bodies.poses[0] == pytest.approx((0, 0, 0))
    # Its first telling may be anywhere.
    bodies.tell(Telling("dots1", bodies.time, (1.5, -1.0, 2.0)))
    bodies.step()
    assert bodies.poses[0] == pytest.approx((1.5, -1.0, 2.0))


def test_a_place_that_is_taken_is_reached_at_the_top_speed_and_tried_again():
    bodies = Bodies(free=False)
    bodies.tell(Telling("dots1", 0.0, (1.5, 0.0, 0.0)))
    bodies.step()
    assert bodies.poses[0, 0] == pytest.approx(TOP * DT)
    # On its way, it has the velocity that it moves at.
    assert bodies.told[0, 3:6] == pytest.approx((TOP, 0, 0))
    tries = round(AGAIN / DT)
    bodies.free = True
    for _ in range(3):
        bodies.tell(Telling("dots1", bodies.time + 0.001, (1.5, 0.0, 0.0)))
        bodies.step(10)
    assert not bodies.appeared
    assert bodies.poses[0, 0] == pytest.approx(31 * TOP * DT)
    far = Bodies(free=False)
    far.tell(Telling("dots1", 0.0, (0.0, 0.0, 0.0)))
    far.step()
    assert tries > 31


@pytest.mark.parametrize(
    ("telling", "reason"),
    [
        (Telling("dots1", 1.0, (math.nan, 0.0, 0.0)), NOT_FINITE),
        (Telling("dots1", 1.0, (0.0, 0.0, math.inf)), NOT_FINITE),
        (Telling("dots1", math.nan, (0.0, 0.0, 0.0)), NOT_FINITE),
        (Telling("dots1", 1.0, (0.0, 0.0, 0.0), (0.0, -math.inf, 0.0)), NOT_FINITE),
        (Telling("dots1", 1.0, (1e300, 0.0, 0.0)), FAR),
        (Telling("dots1", 1.0 + AHEAD + 2 * DT, (0.0, 0.0, 0.0)), EARLY),
        (Telling("dots1", 0.49, (0.0, 0.0, 0.0)), OLD),
        (Telling("dots1", -1e300, (0.0, 0.0, 0.0)), OLD),
        (Telling("dots1", 0.9, (0.0, 0.0, 0.0)), REPEATED),
        (Telling("dots1", 0.89, (0.0, 0.0, 0.0)), REPEATED),
        (Telling("dots1", 1.0, (0.0, 0.0, 0.0), (50.0, 0.0, 0.0)), FAST),
        (Telling("dots1", 1.0, (0.0, 0.0, 0.0), (0.0, 0.0, 1e300)), FAST),
        (Telling("dots1", 1.0, (1.5, 0.0, 0.0)), JUMP),
        (Telling("dots1", 0.91, (0.0, 0.0, math.pi)), JUMP),
    ],
)
def test_what_is_invalid_is_refused_and_counted(telling, reason):
    bodies = Bodies()
    bodies.step(90)
    bodies.tell(Telling("dots1", 0.9, (0.1, 0.0, 0.0), (0.2, 0.0, 0.0)))
    bodies.step(10)
    before = bodies.state
    bodies.tell(telling)
    assert bodies.refused() == {reason: 1}
    assert "dots1: " in bodies.state.latest[reason]
    assert bodies.state.taken[0] == before.taken[0] == 1
    assert bodies.state.ages[0] == before.ages[0]
    bodies.step()
    assert bodies.poses[0, 0] == pytest.approx(0.1 + 0.2 * 0.11)


def test_an_outlier_does_not_keep_a_robot_from_being_found():
    bodies = Bodies()
    bodies.tell(Telling("dots1", 0.0, (0.0, 0.0, 0.0)))
    refused = 0
    for _ in range(100):
        bodies.step()
        # It was carried away by 1.5 m: believed once it could have come there by itself.
        bodies.tell(Telling("dots1", bodies.time, (1.5, 0.0, 0.0)))
        if bodies.poses[0, 0] > 1.4:
            break
        refused = bodies.refused().get(JUMP, 0)
    assert bodies.poses[0, 0] > 1.4
    assert refused == pytest.approx((1.5 - SLACK) / TOP / DT, abs=1)


def test_strangers_are_counted_without_their_names():
    bodies = Bodies()
    for i in range(500):
        bodies.tell(Telling(f"nobody{i}", 0.0, (0.0, 0.0, 0.0)))
    bodies.tell(Telling("simulated1", 0.0, (0.0, 0.0, 0.0)), Telling("dots1", 0.0, (0.0, 0.0, 0.0)))
    bodies.led.tell(Tellings([None, ["x"]], np.zeros(2), np.zeros((2, 3)), np.zeros((2, 3))), 0.0)
    assert bodies.state.refused == {UNKNOWN: {"": 502}, SIMULATED: {"simulated1": 1}}
    assert "dots1" in bodies.state.latest[UNKNOWN]
    assert "body: tracked" in bodies.state.latest[SIMULATED]
    assert bodies.state.taken[0] == 1


@pytest.mark.parametrize(
    "tellings",
    [
        Tellings(["dots1"], np.zeros(2), np.zeros((1, 3)), np.zeros((1, 3))),
        Tellings(["dots1"], np.zeros(1), np.zeros((1, 2)), np.zeros((1, 3))),
        Tellings(["dots1"], np.zeros(1), np.zeros((1, 3)), np.zeros(3)),
        Tellings(["dots1"], ["soon"], np.zeros((1, 3)), np.zeros((1, 3))),
        Tellings(["dots1"], [None], [["a", {}, 2]], np.zeros((1, 3))),
        Tellings([], np.zeros(1), np.zeros((0, 3)), np.zeros((0, 3))),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tellings):
    bodies = Bodies()
    bodies.led.tell(tellings, 0.0)
    assert bodies.state.refused == {MALFORMED: {"": 1}}
    assert bodies.state.taken[0] == 0


def test_tellings_of_one_robot_in_one_call_are_taken_in_order():
    bodies = Bodies(((0, 0, 0), (1, 1, 0)))
    bodies.step(10)
    bodies.tell(
        Telling("dots1", 0.05, (0.0, 0.0, 0.0)),
        Telling("dots2", 0.05, (1.0, 1.0, 0.0)),
        Telling("dots1", 0.08, (0.1, 0.0, 0.0)),
        Telling("dots1", 0.07, (0.2, 0.0, 0.0)),
        Telling("dots1", 0.09, (1.5, 0.0, 0.0)),
    )
    assert bodies.refused() == {REPEATED: 1, JUMP: 1}
    assert bodies.state.taken.tolist() == [2, 1]
    assert bodies.state.ages[0] == pytest.approx(0.02)
    bodies.tell(*(Telling("dots1", 0.09 + 1e-6 * i, (0.1, 0.0, 0.0)) for i in range(ROUNDS + 5)))
    assert bodies.state.taken[0] == 2 + ROUNDS
    assert bodies.refused()[FLOOD] == 5
    # The last ones are read, also of those that come one robot after the other.
    assert bodies.state.ages[0] == pytest.approx(0.01 - 1e-6 * (ROUNDS + 4), abs=1e-9)
    names = [name for _ in range(ROUNDS + 2) for name in ("dots2", "x", "dots1")]
    bodies.tell(*(Telling(name, 0.091 + 1e-5 * i, (0.1, 0.0, 0.0)) for i, name in enumerate(names)))
    assert bodies.state.ages[0] == pytest.approx(0.009 - 1e-5 * (len(names) - 1))
    assert (bodies.refused()[FLOOD], bodies.state.refused[UNKNOWN]) == (7, {"": ROUNDS + 2})


def test_a_wall_holds_a_body_and_counts_each_telling_behind_it_once():
    bodies = Bodies()
    bodies.tell(Telling("dots1", 0.0, (1.8, 0.0, 0.0)))
    bodies.step()
    for _ in range(20):
        bodies.step(5)
        # Towards a place half in the wall, and along it.
        y = 0.2 * bodies.time
        bodies.tell(Telling("dots1", bodies.time, (1.95, y, 0.0), (0.0, 0.2, 0.0)))
    bodies.step(5)
    assert bodies.poses[0, 0] == pytest.approx(2.0 - RADIUS + SINK, abs=1e-6)
    # It slides along the wall: its place there is followed.
    assert bodies.poses[0, 1] == pytest.approx(0.2 * bodies.time, abs=3e-3)
    assert bodies.told[0, 3:6] == pytest.approx((0.0, 0.2, 0.0), abs=1e-2)
    assert bodies.refused() == {BLOCKED: 20}
    assert bodies.state.taken[0] == 21
    assert not bodies.state.lost[0]
    assert bodies.state.off[0] == pytest.approx(0.075, abs=1e-3)
    assert "wall" in bodies.state.latest[BLOCKED]


def test_a_body_does_not_pass_a_thin_wall_nor_leave_the_arena():
    wall = np.array([[0.5, -2.0, 0.5, 2.0]])
    bodies = Bodies(segments=np.vstack([ARENA, wall]), free=False)
    bodies.tell(Telling("dots1", 0.0, (1.0, 0.0, 0.0), (1.0, 0.0, 0.0)))
    bodies.step(200)
    assert bodies.poses[0, 0] == pytest.approx(0.5 - RADIUS + SINK, abs=1e-6)
    # Where there is room behind the wall, it appears there, and is held by nothing.
    behind = Bodies(segments=np.vstack([ARENA, wall]))
    behind.tell(Telling("dots1", 0.0, (1.0, 0.0, 0.0)))
    behind.step()
    assert behind.poses[0, 0] == 1.0
    assert not behind.state.refused
    outside = Bodies(free=False)
    outside.tell(Telling("dots1", 0.0, (30.0, 30.0, 0.0)))
    outside.step(200)
    assert outside.poses[0, :2] == pytest.approx((2.0 - RADIUS, 2.0 - RADIUS), abs=1e-3)


coordinates = st.floats(-2.4, 2.4)
walls = st.lists(
    st.tuples(coordinates, coordinates, coordinates, coordinates).filter(
        lambda w: math.dist(w[:2], w[2:]) > 0.05
    ),
    max_size=4,
)
cylinders = st.lists(st.tuples(coordinates, coordinates, st.floats(0.02, 0.5)), max_size=3)


def gap(x, y, segments, pillars):
    """Return the distance of a point from walls and pillars."""
    start, along = segments[:, :2], segments[:, 2:] - segments[:, :2]
    share = np.clip((((x, y) - start) * along).sum(axis=1) / (along**2).sum(axis=1), 0, 1)
    off = np.hypot(*((x, y) - start - share[:, None] * along).T)
    far = np.hypot(pillars[:, 0] - x, pillars[:, 1] - y) - pillars[:, 2]
    return min(off.min(initial=math.inf), far.min(initial=math.inf))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(walls, cylinders, st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=8))
def test_walls_hold_bodies_wherever_they_are_sent(more, pillars, way):
    segments = np.vstack([ARENA, np.array(more).reshape(-1, 4)])
    pillars = np.array(pillars, dtype=np.float64).reshape(-1, 3)
    x, y = way[0]
    if max(abs(x), abs(y)) > 2 or gap(x, y, segments, pillars) < RADIUS:
        return
    for to in way[1:]:
        before = x, y
        x, y, held = press_k(x, y, *to, RADIUS, segments, pillars)
        assert held == ((x, y) != to)
        assert (x, y) == before or gap(x, y, segments, pillars) > RADIUS - SINK - 1e-6
        assert max(abs(x), abs(y)) < 2
        # It came there on a way that no wall crosses.
        for x1, y1, x2, y2 in segments:
            sides = [(x2 - x1) * (q - y1) - (y2 - y1) * (p - x1) for p, q in (before, (x, y))]
            ends = [
                (x - before[0]) * (q - before[1]) - (y - before[1]) * (p - before[0])
                for p, q in ((x1, y1), (x2, y2))
            ]
            assert not (sides[0] * sides[1] < 0 and ends[0] * ends[1] < 0)


numbers = st.one_of(
    st.floats(-3, 3), st.floats(), st.sampled_from((math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0))
)
tellings = st.builds(
    lambda name, late, pose, twist: (name, late, pose, twist),
    st.sampled_from(("dots1", "dots2", "simulated1", "nobody", "")),
    st.one_of(st.floats(-1, 1), st.floats(0, 0.05), numbers),
    st.one_of(st.tuples(coordinates, coordinates, st.floats(-7, 7)), st.tuples(numbers, numbers, numbers)),
    st.one_of(st.just((0.0, 0.0, 0.0)), st.tuples(numbers, numbers, numbers)),
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.lists(tellings, max_size=4)), max_size=12), st.booleans())
def test_no_telling_does_harm(told, free):
    bodies = Bodies(((0.0, 0.0, 0.0), (-1.0, 1.0, 1.0)), pillars=[(1.0, 0.5, 0.3)], free=free)
    sent = 0
    for steps, items in told:
        bodies.tell(*(Telling(name, bodies.time - late, pose, twist) for name, late, pose, twist in items))
        sent += len(items)
        for _ in range(steps):
            before, bodies.appeared = bodies.poses.copy(), []
            bodies.step()
            assert np.isfinite(bodies.told).all()
            for k, (x, y, _) in enumerate(bodies.poses):
                way = math.dist(before[k, :2], (x, y))
                if k in bodies.appeared:
                    bodies.poses[k] = before[k]
                    continue
                # Walls may push it a little farther than it goes by itself.
                assert way <= TOP * DT + RADIUS
                assert gap(x, y, bodies.segments, bodies.pillars) > RADIUS - SINK - 1e-6
                assert max(abs(x), abs(y)) < 2
                assert np.hypot(*bodies.told[k, 3:5]) <= TOP * 1.001 + RADIUS / DT
    state = bodies.state
    rejected = sum(sum(counts.values()) for reason, counts in state.refused.items() if reason != BLOCKED)
    assert rejected + state.taken.sum() == sent
    assert np.isfinite(state.off).all()
    assert (state.lost_for >= 0).all()
    assert ((state.lost_for > 0) <= state.lost).all()


def test_robots_come_and_go_without_a_trace():
    rng, led, there = np.random.default_rng(5), Led(DT), {}
    poses = np.empty((0, 3))
    now = 0.0
    for step in range(1000):
        now += DT
        if rng.random() < 0.5 or not there:
            name = f"dots{step}"
            led.add(name, DOTS, (0.0, 0.0, 0.0), TrackedBody(), now)
            there[name] = (0, now)
        else:
            name = str(rng.choice(list(there)))
            led.remove(name)
            led.remove(name)
            del there[name]
        for name in list(there)[:3]:
            led.tell(Tellings.of([Telling(name, now + DT, (0.0, 0.0, 0.0))]), now)
            there[name] = (there[name][0] + 1, now + DT)
        poses = np.zeros((len(there), 3))
        told = np.zeros((len(there), TOLD))
        led.follow(now + DT, np.arange(len(there)), poses, ARENA, np.empty((0, 3)), told)
        state = led.state(now + DT)
        assert state.names == tuple(there)
        assert state.taken.tolist() == [count for count, _ in there.values()]
        ages = [now + DT - stamp if count else math.inf for count, stamp in there.values()]
        assert state.ages == pytest.approx(ages)
        assert not state.refused


def test_what_was_refused_of_a_robot_that_has_left_stays_counted():
    led = Led(DT)
    for name in ("a", "b"):
        led.add(name, DOTS, (0.0, 0.0, 0.0), TrackedBody(), 0.0)
    bad = Telling("a", math.nan, (0.0, 0.0, 0.0))
    led.tell(Tellings.of([bad, bad, bad._replace(name="b")]), 0.0)
    led.remove("a")
    assert led.state(0.0).refused == {NOT_FINITE: {"": 2, "b": 1}}
    led.remove("b")
    assert led.state(0.0).refused == {NOT_FINITE: {"": 3}}


def test_tellings_survive_being_written_down():
    made = Tellings.of(
        [Telling("led1", 0.1, (1.0, math.nan, 3.0), (4.0, 5.0, -0.0)), Telling("x", 2, (1e308, 0, 1))]
    )
    order = json.loads(json.dumps(as_json(Told(made))))
    again = from_json(order).tellings
    assert list(again.names) == ["led1", "x"]
    for name in ("stamps", "poses", "twists"):
        assert getattr(again, name).tobytes() == getattr(made, name).tobytes()
    Led(DT).tell(again, 0.0)
    for wrong in ({"names": ["led1"], "numbers": order["tellings"]["numbers"]}, {"names": []}, {}, None):
        with pytest.raises(OrderError, match="order told"):
            from_json({"order": "told", "tellings": wrong})
    with pytest.raises(OrderError, match="expected 7"):
        Orders().put(
            Told(Tellings(["led1", "led2"], made.stamps[:1], made.poses[:1], made.twists[:1]))
        ).result()
