"""The transport study's robots, in a plane of a few lines: they find, follow, mend, share, and let pass."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.handshake import BROADCAST, Doing, Kind, Message
from swarmbed_behaviours.letters import packed
from swarmbed_behaviours.transport import (
    FRONT,
    SEES,
    STRIDE,
    Eyes,
    Porter,
    Transport,
    TransportParameters,
    turn_of,
)
from swarmbed_core.device import RadioPacket
from swarmbed_core.errors import ConfigError
from swarmbed_core.raycast import box_segments, cast_ring_k
from swarmbed_core.spec import RobotSpec

from swarmbed_behaviours import routes

PIONEER = RobotSpec.load("pioneer3dx")
EYES = Eyes.of(PIONEER)
RING = PIONEER.ranges[0]
SOURCE, DESTINATION = (0.0, 0.0), (12.0, 0.0)
NOTHING = [math.inf] * RING.count


def parameters(**more):
    return TransportParameters.model_validate({"source": SOURCE, "destination": DESTINATION, **more})


def carrier(me=1, seed=1, **more):
    return Porter(me, EYES, parameters(**more), np.random.default_rng(seed))


def with_route(robot, *between):
    """Let a robot know a route by heart."""
    robot._adopt(np.array([SOURCE, *between, DESTINATION]), "found")
    return robot


class Plane:
    """Robots that do what they are asked at once, among walls that stop them."""

    def __init__(self, robots, poses, boxes=(), size=40.0):
        self.robots, self.poses, self.now = robots, np.array(poses, dtype=np.float64), 0.0
        walls = [box_segments(np.array([0.0, 0.0, 0.0]), size, size)]
        self.walls = np.vstack([*walls, *(box_segments(np.array(pose), *size) for pose, size in boxes)])
        self.boxes = boxes
        self.inboxes = [[] for _ in robots]
        self.visited = [set() for _ in robots]
        self.stopped = 0

    def ranges(self, k):
        out = np.zeros(RING.count)
        discs = np.column_stack([self.poses[:, :2], np.full(len(self.poses), EYES.radius)])
        cast_ring_k(
            self.poses[k], np.array(RING.angles), RING.mount_radius, RING.field_of_view, RING.rays,
            self.walls, discs, k, RING.range_max, out,
        )  # fmt: skip
        return out.tolist()

    def is_free(self, place):
        for pose, (length, width) in self.boxes:
            if (
                abs(place[0] - pose[0]) < length / 2 + EYES.radius
                and abs(place[1] - pose[1]) < width / 2 + EYES.radius
            ):
                return False
        return max(abs(place[0]), abs(place[1])) < 20.0 - EYES.radius

    def tick(self):
        self.now += 0.1
        sent, moves = [], []
        for k, robot in enumerate(self.robots):
            x, y, yaw = self.poses[k].tolist()
            speed, rate, out = robot.tick(self.now, (x, y), yaw, self.ranges(k), self.inboxes[k])
            sent += [(k, message) for message in out]
            moves.append((speed, min(max(rate, -5.0), 5.0)))
            for name, place in (("source", SOURCE), ("destination", DESTINATION)):
                if math.dist((x, y), place) < 1.2:
                    self.visited[k].add((name, robot.doing))
        self.inboxes = [[] for _ in self.robots]
        for k, message in sent:
            for other in range(len(self.robots)):
                heard = other != k and self.robots[other].handshake.channel == message.channel
                if heard and math.dist(self.poses[k, :2], self.poses[other, :2]) < 2.0:
                    self.inboxes[other].append(message)
        for k, (speed, rate) in enumerate(moves):
            yaw = turn_of(self.poses[k, 2] + 0.1 * rate)
            place = self.poses[k, :2] + 0.1 * speed * np.array([math.cos(yaw), math.sin(yaw)])
            others = np.delete(self.poses[:, :2], k, axis=0)
            gap = np.hypot(*(others - place).T).min() if len(others) else math.inf
            before = np.hypot(*(others - self.poses[k, :2]).T).min() if len(others) else math.inf
            if self.is_free(place) and (gap > 2 * EYES.radius or gap > before):
                self.poses[k, :2] = place
            else:
                self.stopped += 1
            self.poses[k, 2] = yaw

    def run(self, seconds, until=lambda: False):
        while self.now < seconds and not until():
            self.tick()
        return self.now


def goes_on_until(plane, k, times):
    """Run until a robot has delivered so often."""
    robot, done, was = plane.robots[k], 0, plane.robots[k].doing
    while done < times and plane.now < 2000:
        plane.tick()
        done += was == "to destination" and robot.doing == "to source"
        was = robot.doing
    return plane.now


def test_front_sonars_are_used_and_who_has_none_is_refused():
    assert len(EYES.sensors) == 10
    assert all(abs(angle) < FRONT for angle in EYES.angles)
    dots = RobotSpec.load("dots")
    with pytest.raises(ConfigError, match="has no positioning"):
        Eyes.of(dots)
    blind = PIONEER.model_copy(update={"ranges": ()})
    with pytest.raises(ConfigError, match="looks ahead"):
        Eyes.of(blind)


class Radios:
    """Robots outside a crowd that hear each other's packets at once, wherever they are."""

    def __init__(self, fake_of, count=2):
        self.robots = [fake_of("pioneer3dx") for _ in range(count)]
        for k, robot in enumerate(self.robots):
            robot.name = f"pioneer3dx{k + 1}"
            robot.set(ranges={"sonar": np.full(16, math.inf)}, position=np.array([1.0 * k, 5.0]), heading=0.0)
        self.programs = [
            Transport(robot, parameters(silence=0.0), np.random.default_rng(k))
            for k, robot in enumerate(self.robots)
        ]

    def run(self, seconds):
        for tick in range(round(seconds * 10)):
            sent = [(robot.commands[-1].send or {}) if robot.commands else {} for robot in self.robots]
            for k, robot in enumerate(self.robots):
                packets = [
                    RadioPacket(0.0, self.robots[j].name, item["wifi"])
                    for j, item in enumerate(sent)
                    if j != k and "wifi" in item
                ]
                robot.set(time=0.1 * tick, heard={"wifi": (RadioPacket(0.0, "x", b"noise"), *packets)})
                self.programs[k].tick()


def test_robots_outside_a_crowd_talk_in_packets(fake_of):
    made = Radios(fake_of)
    route = np.column_stack([np.linspace(0.0, 12.0, 150), np.sin(np.arange(150))])
    route[0], route[-1] = SOURCE, DESTINATION
    giver, taker = made.programs
    giver.carrier._adopt(route, "found")
    made.run(6.0)
    assert taker.carrier.got == "given"
    assert taker.doing == "to source"
    assert np.array_equal(taker.carrier.route, giver.carrier.route)
    assert giver.carrier.handshake.counts.done == taker.carrier.handshake.counts.done == 1


def test_of_several_robots_it_talks_to_the_one_that_a_crowd_would_hear_first(fake_of):
    """Otherwise robots that choose each other in a circle offer and wait forever."""
    made = Radios(fake_of, 1)
    waits = [packed(Message(Kind.WAIT, BROADCAST, sender, knows=True)) for sender in (9, 5, 7)]
    made.robots[0].set(time=0.0, heard={"wifi": [RadioPacket(0.0, "x", payload) for payload in waits]})
    made.programs[0].tick()
    assert made.programs[0].carrier.handshake._partner == 5


def test_a_robot_outside_a_crowd_stands_until_it_knows_where_it_is(fake_of):
    made = Radios(fake_of, 1)
    made.robots[0].set(position=None)
    made.run(0.1)
    assert made.robots[0].commands[0].velocity_body == (0.0, 0.0, 0.0)
    made.robots[0].spec = PIONEER.model_copy(update={"radios": ()})
    with pytest.raises(ConfigError, match="no packet radio for 1000 bytes"):
        Transport(made.robots[0], parameters(), np.random.default_rng(1))


@settings(deadline=None, max_examples=60)
@given(st.floats(-3.1, 3.1), st.integers(0, 9), st.floats(0.05, 4.9))
def test_what_a_sonar_sees_is_in_the_way_where_it_looks_and_nowhere_behind(heading, sensor, away):
    robot = carrier()
    ranges = list(NOTHING)
    ranges[EYES.sensors[sensor]] = away
    robot.tick(0.1, (0.0, 0.0), heading, ranges, [])
    ahead = heading + EYES.angles[sensor]
    assert robot._clear(ahead) == pytest.approx(max(away + EYES.mount - EYES.radius, 0.0))
    assert robot._clear(ahead + math.pi) == EYES.reach


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.lists(st.floats(0.0, 5.0), min_size=10, max_size=10))
def test_a_new_location_is_clear_or_has_to_be_turned_to(seed, seen):
    robot = carrier(seed=seed)
    ranges = list(NOTHING)
    for sensor, away in zip(EYES.sensors, seen, strict=True):
        ranges[sensor] = away
    robot._place, robot._heading, robot._ranges, robot._seen = (0.0, 0.0), 0.5, ranges, None
    x, y = robot._new_location()
    direction = math.atan2(y, x)
    assert math.hypot(x, y) == pytest.approx(STRIDE)
    assert abs(turn_of(direction - 0.5)) > FRONT or robot._clear(direction) > STRIDE


def test_it_finds_the_destination_keeps_the_way_and_carries():
    plane = Plane([carrier(seed=3)], [[0.5, 0.5, 2.0]])
    robot = plane.robots[0]
    plane.run(1500, lambda: robot.knows)
    assert robot.got == "found"
    assert robot.doing == "to source"
    assert np.array_equal(robot.route[[0, -1]], [SOURCE, DESTINATION])
    before = routes.length(robot.route)
    assert before > 12.0
    goes_on_until(plane, 0, 2)
    assert ("source", "to destination") in plane.visited[0]
    assert routes.length(robot.route) < before
    assert np.array_equal(robot.route[[0, -1]], [SOURCE, DESTINATION])


def test_it_does_not_know_a_destination_that_it_does_not_see():
    robots = [carrier(seed=5), carrier(seed=5, destination=(-12.0, 3.0))]
    ways = []
    for robot in robots:
        plane = Plane([robot], [[0.0, 0.0, 1.0]])
        way = []
        while min(math.dist(plane.poses[0, :2], to) for to in (DESTINATION, (-12.0, 3.0))) > SEES + 0.5:
            plane.tick()
            way.append(plane.poses[0].copy())
        ways.append(np.array(way))
    shorter = min(map(len, ways))
    assert shorter > 100
    assert np.array_equal(ways[0][:shorter], ways[1][:shorter])


def test_a_way_is_made_shorter_on_the_way():
    zigzag = [(x + 0.5, 2.5 * (-1) ** x) for x in range(1, 11)]
    plane = Plane([with_route(carrier(), *zigzag)], [[0.0, 0.0, 0.0]])
    robot = plane.robots[0]
    robot.doing = "to destination"
    before = routes.length(robot.route)
    goes_on_until(plane, 0, 2)
    assert routes.length(robot.route) < 0.5 * before


def test_it_goes_round_what_blocks_its_route_and_remembers_how():
    box = ([6.0, 0.0, 0.0], (3.0, 5.0))
    plane = Plane([with_route(carrier())], [[0.5, 0.0, 0.0]], [box])
    robot = plane.robots[0]
    robot.doing = "to destination"
    first = goes_on_until(plane, 0, 1)
    assert first < 120
    began = plane.now
    goes_on_until(plane, 0, 2)
    assert (plane.now - began) / 2 < 80
    inside = [place for place in routes.respaced(robot.route, 0.1) if not plane.is_free(place)]
    # It may cut a corner that it has not met, but no longer goes through.
    assert len(inside) < 12


@pytest.mark.parametrize("outward", [True, False])
def test_a_way_round_takes_the_place_of_what_was_blocked(outward):
    robot = with_route(carrier())
    robot.doing = "to destination" if outward else "to source"
    ends = (4.0, 8.0) if outward else (8.0, 4.0)
    robot._left = 4 if outward else 8
    detour = routes.Trail((ends[0], 0.0))
    for place in ((ends[0], 2.0), (6.0, 2.0), (ends[1], 2.0)):
        detour.add(place)
    # By the time it is round, places behind it count as passed.
    robot._index, robot._place = (7, (ends[1], 0.5)) if outward else (5, (ends[1], 0.5))
    robot._end_detour(detour, 8 if outward else 4)
    assert not any(math.dist(place, (6.0, 0.0)) < 1.0 for place in robot.route)
    assert routes.length(robot.route) == pytest.approx(16.0, abs=0.1)
    assert np.array_equal(robot.route[[0, -1]], [SOURCE, DESTINATION])


def test_a_new_route_ends_a_way_round():
    robot = with_route(carrier(1), (3.0, 4.0))
    robot._detour, robot._side, robot._target = routes.Trail((1.0, 1.0)), 1.0, (2.0, 2.0)
    robot._take(np.array([SOURCE, (6.0, 1.0), DESTINATION]))
    assert (robot._detour, robot._side, robot._target) == (None, 0.0, None)


def test_source_and_destination_are_apart():
    with pytest.raises(ValueError, match="are 1 m apart: at least 4 m"):
        parameters(destination=(1.0, 0.0))


def test_who_talks_while_driving_is_still_seen():
    one = with_route(carrier(1, silence=0.0, traffic=("swerve", "driving")))
    other = with_route(carrier(2, silence=0.0, traffic=("swerve", "driving")))
    one.doing, other.doing = "to destination", "to source"
    plane = Plane([one, other], [[3.0, 0.5, 0.0], [4.0, -0.5, math.pi]])
    plane.run(5, lambda: one.handshake.doing is Doing.TALKS)
    assert one.handshake.doing is Doing.TALKS
    _, _, out = one.tick(plane.now + 0.1, (3.5, 0.5), 0.0, NOTHING, [])
    told = [message for message in out if message.kind is Kind.WAIT]
    assert [message.to for message in told] == [2]
    third = with_route(carrier(3, silence=0.0, traffic=("swerve", "driving")))
    third.tick(plane.now, (3.5, -0.5), 0.0, NOTHING, told)
    assert 1 in third._heard
    assert third.handshake.doing is Doing.FREE


def test_what_no_sonar_sees_is_felt_and_remembered():
    robot = with_route(carrier())
    robot.doing, robot._index = "to destination", 8
    for n in range(60):
        speed, _, _ = robot.tick(0.1 * n, (5.0, 0.0), 0.0, NOTHING, [])
        if speed < 0:
            break
    assert speed < 0
    assert robot._bumps == [pytest.approx((5.0 + EYES.radius, 0.0))]
    robot.tick(7.0, (4.5, 0.0), 0.0, NOTHING, [])
    assert robot._clear(0.0) == pytest.approx(0.5)
    # Another robot is nothing to remember.
    other = with_route(carrier())
    other.doing, other._index = "to destination", 8
    wait = Message(Kind.WAIT, (0, 0), 2)
    for n in range(60):
        other.tick(0.1 * n, (5.0, 0.0), 0.0, NOTHING, [wait])
    assert other._bumps == []


@pytest.mark.parametrize("traffic", [(), ("swerve",), ("lanes",), ("lanes", "swerve", "driving")])
def test_two_that_meet_pass_each_other(traffic):
    one = with_route(carrier(1, mode="none", traffic=traffic))
    other = with_route(carrier(2, mode="none", traffic=traffic))
    one.doing, other.doing = "to destination", "to source"
    plane = Plane([one, other], [[3.0, 0.0, 0.0], [9.0, 0.0, math.pi]])
    one._index = 3
    other._index = 9
    plane.run(90, lambda: one.doing == "to source" and other.doing == "to destination")
    assert plane.now < 60
    assert plane.stopped < 20


def meeting(mode, one_knows, other_knows, **more):
    one, other = carrier(1, mode=mode, silence=0.0, **more), carrier(2, mode=mode, silence=0.0, **more)
    if one_knows:
        with_route(one, (3.0, 4.0), (9.0, 4.0)).doing = "to destination"
    if other_knows:
        with_route(other, (2.0, -0.5)).doing = "to destination"
    plane = Plane([one, other], [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    plane.run(6)
    return one, other


def test_who_has_no_route_is_given_one():
    for mode in ("full", "partial"):
        one, other = meeting(mode, one_knows=True, other_knows=False)
        assert other.got == "given"
        assert other.doing != "explore"
        assert np.array_equal(other.route[[0, -1]], [SOURCE, DESTINATION])
        # The one of the lesser number counts it.
        assert (len(one.talks), len(other.talks)) == (1, 0)


def test_two_with_routes_share_the_better_in_full_mode_alone():
    one, other = meeting("full", one_knows=True, other_knows=True)
    assert routes.length(one.route) < 13.5
    assert (len(one.talks), len(other.talks)) == (1, 0)
    one, other = meeting("partial", one_knows=True, other_knows=True)
    assert one.talks == other.talks == []


def test_nobody_talks_in_mode_none_in_the_silence_or_without_a_route():
    one, other = meeting("none", one_knows=True, other_knows=False)
    assert not other.knows
    one, other = meeting("full", one_knows=False, other_knows=False)
    assert one.talks == []
    one, other = carrier(1, silence=100.0), carrier(2, silence=100.0)
    with_route(one)
    plane = Plane([one, other], [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    plane.run(5)
    assert one.handshake.counts.begun == 0


def test_robots_stand_while_they_talk_but_for_those_that_drive_on():
    for traffic, stands in (((), True), (("driving",), False)):
        one = with_route(carrier(1, silence=0.0, traffic=traffic))
        one.doing, one._index = "to destination", 5
        one.tick(0.1, (3.0, 0.0), 0.0, NOTHING, [Message(Kind.WAIT, (0, 0), 2)])
        speed, _, _ = one.tick(0.2, (3.0, 0.0), 0.0, NOTHING, [])
        assert one.handshake.doing is Doing.LISTENS
        assert (speed == 0.0) is stands


def test_its_speed_is_the_one_asked_for():
    robot = with_route(carrier(speed=0.8))
    robot.doing, robot._index = "to destination", 5
    speed, rate, _ = robot.tick(0.1, (3.0, 0.0), 0.0, NOTHING, [])
    assert (speed, rate) == pytest.approx((0.8, 0.0), abs=0.01)
