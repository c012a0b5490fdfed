"""The handshake ends within its timers whatever the air does, with a whole route or with none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from swarmbed_behaviours.handshake import BROADCAST, Doing, Handshake, Kind, Message, channel_of

from swarmbed_behaviours import handshake

TICK = 0.1
LONGEST = max(handshake.ATTEMPTS * handshake.RETRY, handshake.PATIENCE) + handshake.TIMER + 2 * TICK
"""Seconds after which nobody is engaged who was so before."""


def route_of(places, number):
    return np.column_stack([np.arange(places, dtype=np.float64), np.full(places, float(number))])


class Air:
    """Some robots, and what is between them."""

    def __init__(self, *routes, **how):
        self.routes = list(routes)
        self.robots = [Handshake(i + 1, silence=0.0, **how) for i in range(len(routes))]
        for robot, route in zip(self.robots, routes, strict=True):
            robot.knows = route is not None
        self.now = 0.0
        self.flying = []
        self.outcomes = []

    def tick(self):
        for robot in self.robots:
            out, outcome = robot.tick(self.now)
            self.flying += out
            if outcome is not None:
                self.outcomes.append((robot.me, outcome))
        self.now += TICK

    def deliver(self, message):
        for robot, route in zip(self.robots, self.routes, strict=True):
            robot.hear(message, route, self.now)

    def run(self, seconds, keep=lambda _: True):
        for _ in range(round(seconds / TICK)):
            flying, self.flying = self.flying, []
            for message in flying:
                if keep(message):
                    self.deliver(message)
            self.tick()


def is_whole(air, outcome):
    sent = air.routes[outcome.partner - 1]
    if sent is None or outcome.route is None:
        return sent is None and outcome.route is None
    return np.array_equal(outcome.route, sent)


@pytest.mark.parametrize("first", [None, 3, 250])
def test_two_exchange_their_routes(first):
    air = Air(None if first is None else route_of(first, 1), route_of(120, 2))
    air.run(3.0)
    assert sorted(me for me, _ in air.outcomes) == [1, 2]
    assert all(is_whole(air, found) for _, found in air.outcomes)
    assert all(robot.doing is Doing.FREE and robot.channel == BROADCAST for robot in air.robots)
    assert all(robot.counts.done == 1 and 0 < robot.counts.seconds < 2.0 for robot in air.robots)
    air.run(60.0)
    assert len(air.outcomes) == 2, "not so soon again"
    air.now += handshake.AGAIN
    air.run(3.0)
    assert len(air.outcomes) == 4


def test_who_knows_nothing_has_nothing_to_talk_about():
    air = Air(None, None)
    air.run(5.0)
    assert air.outcomes == []
    assert all(robot.counts.begun == 0 for robot in air.robots)


def test_nobody_talks_in_the_silence():
    air = Air(route_of(2, 1), route_of(2, 2))
    for robot in air.robots:
        robot._silence = 900.0
    air.run(10.0)
    assert air.outcomes == []
    air.now = 901.0
    air.run(3.0)
    assert len(air.outcomes) == 2


def test_who_does_not_want_to_rejects_and_the_other_goes_on_at_once():
    air = Air(route_of(2, 1), route_of(2, 2))
    air.robots[0]._takes = False
    air.run(0.5)
    assert air.robots[1].counts.failed >= 1
    assert air.outcomes == []


def test_of_three_two_talk_and_the_third_after_them():
    air = Air(route_of(2, 1), route_of(2, 2), route_of(2, 3))
    air.run(40.0)
    pairs = {frozenset((me, outcome.partner)) for me, outcome in air.outcomes}
    assert pairs == {frozenset(pair) for pair in ((1, 2), (1, 3), (2, 3))}
    assert all(is_whole(air, found) for _, found in air.outcomes)


def test_half_of_all_messages_may_get_lost():
    done = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        air = Air(route_of(250, 1), route_of(250, 2))
        air.run(30.0, lambda _, rng=rng: rng.random() < 0.5)
        assert all(is_whole(air, found) for _, found in air.outcomes)
        done += {me for me, _ in air.outcomes} == {1, 2}
    assert done >= 19


def test_a_robot_that_leaves_in_the_middle_holds_nobody_up():
    air = Air(route_of(250, 1), route_of(250, 2))
    while air.robots[1].doing is not Doing.TALKS:
        air.run(TICK)
    air.run(LONGEST, lambda _: False)
    assert all(robot.doing is Doing.FREE and robot.channel == BROADCAST for robot in air.robots)
    assert all(is_whole(air, found) for _, found in air.outcomes)
    assert len(air.outcomes) < 2


def test_what_comes_late_from_an_earlier_talk_is_left_out():
    air = Air(route_of(250, 1), route_of(250, 2))
    late = []
    air.run(3.0, lambda message: late.append(message) or True)
    late = [message for message in late if message.kind in {Kind.PIECE, Kind.END}]
    assert len(air.outcomes) == 2
    air.outcomes.clear()
    air.now += handshake.AGAIN
    air.routes = [route_of(150, 3), route_of(90, 4)]
    while air.robots[0].doing is not Doing.TALKS:
        air.run(TICK)
    for message in late:
        air.deliver(message)
    air.run(3.0)
    assert len(air.outcomes) == 2
    assert all(is_whole(air, found) for _, found in air.outcomes)


def test_two_others_have_another_channel():
    channels = {channel_of(a, b) for a in range(20) for b in range(a)}
    assert len(channels) == 190
    assert BROADCAST not in channels
    assert channel_of(3, 5) == channel_of(5, 3)


class AnyAir(RuleBasedStateMachine):
    """Messages are lost, late, doubled and out of order, as it pleases."""

    @initialize(
        first=st.none() | st.integers(2, 260), second=st.none() | st.integers(2, 260), third=st.booleans()
    )
    def begin(self, first, second, third):
        routes = [
            None if places is None else route_of(places, k) for k, places in enumerate((first, second), 1)
        ]
        self.air = Air(*routes, *([route_of(5, 3)] if third else []), again=5.0)
        self.old: list[Message] = []
        self.engaged: dict[int, float] = {}

    @rule(ticks=st.integers(1, 20))
    def time_passes(self, ticks):
        for _ in range(ticks):
            self.air.tick()
            self.note()
        # What is never delivered is lost.
        self.air.flying = self.air.flying[-40:]

    @precondition(lambda self: self.air.flying)
    @rule(data=st.data(), keep=st.booleans())
    def one_arrives(self, data, keep):
        k = data.draw(st.integers(0, len(self.air.flying) - 1))
        message = self.air.flying[k] if keep else self.air.flying.pop(k)
        self.old.append(message)
        self.air.deliver(message)
        self.note()

    @precondition(lambda self: self.air.flying)
    @rule()
    def all_arrive(self):
        flying, self.air.flying = self.air.flying, []
        self.old += flying[-5:]
        for message in flying:
            self.air.deliver(message)
        self.note()

    @precondition(lambda self: self.old)
    @rule(data=st.data())
    def one_of_old_arrives_again(self, data):
        self.air.deliver(data.draw(st.sampled_from(self.old)))
        self.note()

    @rule()
    def the_air_is_quiet(self):
        for _ in range(round(LONGEST / TICK)):
            self.air.tick()
            self.note()
        self.air.flying.clear()
        assert all(robot.doing is Doing.FREE for robot in self.air.robots)
        assert all(robot.channel == BROADCAST for robot in self.air.robots)

    @rule()
    def the_air_is_good(self):
        for _ in range(50):
            self.air.run(TICK)
            self.note()

    def note(self):
        for robot in self.air.robots:
            if robot.doing is Doing.FREE:
                self.engaged.pop(robot.me, None)
            else:
                self.engaged.setdefault(robot.me, self.air.now)

    @invariant()
    def routes_are_whole(self):
        if hasattr(self, "air"):
            assert all(is_whole(self.air, found) for _, found in self.air.outcomes)

    @invariant()
    def nobody_is_engaged_for_longer_than_the_timers(self):
        if hasattr(self, "air"):
            assert all(self.air.now - since <= LONGEST for since in self.engaged.values())


TestAnyAir = AnyAir.TestCase
TestAnyAir.settings = settings(deadline=None, max_examples=100, stateful_step_count=40)


def test_a_message_says_what_it_is():
    message = Message(Kind.WAIT, BROADCAST, 3, knows=True)
    assert (message.to, message.knows, message.kind.value) == (-1, True, "WAIT")
