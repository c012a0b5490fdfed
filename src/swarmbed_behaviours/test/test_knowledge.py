from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from swarmbed_behaviours.knowledge import CELL, SILENT, Ground, Knowledge
from swarmbed_behaviours.talk import Item, Message, State, Status, encode
from swarmbed_core.device import RadioPacket, Zone
from swarmbed_core.robot import Senses

ANGLES = np.arange(16) * math.pi / 8


class Sight:
    """As much of a CarrierEstimate as is asked for."""

    def __init__(self, x, y, stamp):
        self.pose_odom, self.stamp = np.array((x, y, 0.0)), stamp


class Robot:
    """Feeds a Knowledge with the senses of a robot that drives as it is told."""

    def __init__(self, name="a", zone=Zone.NEITHER, compass=0.0):
        self.knowledge = Knowledge(name, ANGLES, 0.125)
        self.pose = np.zeros(3)
        self.compass = compass
        self.time = 0.0
        self.update(zone)

    def update(self, zone=Zone.NEITHER, sights=None, heard=(), ranges=()):
        self.time += 0.1
        senses = Senses(
            self.time,
            self.pose.copy(),
            np.zeros(3),
            heading=self.pose[2] + self.compass,
            zone=zone,
            ranges={"tof": np.full(16, 2.0)},
            heard={
                "ble": tuple(RadioPacket(self.time, who, encode(message)) for who, message in heard),
                "uwb": tuple(RadioPacket(self.time, who, distance=d) for who, d in ranges),
            },
        )
        self.knowledge.update(senses, sights or {})


def told(state=State.SEARCH, x=0.0, y=0.0, **more):
    return Message(state, more.pop("anchored", False), 0, x, y, **more)


def test_dead_reckoning_goes_along_the_compass():
    robot = Robot(compass=math.pi / 2)
    for _ in range(10):
        robot.pose[0] += 0.1
        robot.update()
    # Odometry's x is north here.
    assert (robot.knowledge.x, robot.knowledge.y) == pytest.approx((0.0, 1.0), abs=1e-9)
    x, y = robot.knowledge.from_odom(2.0, 0.5)
    assert (x, y) == pytest.approx((-0.5, 2.0), abs=1e-9)


def test_a_drifting_odometry_is_straightened_by_the_compass():
    robot = Robot()
    truth = np.zeros(2)
    for k in range(300):
        # The odometry's yaw runs away while the robot drives along +x.
        robot.pose[2] = 0.01 * k
        robot.compass = -0.01 * k
        robot.pose[:2] += 0.05 * math.cos(robot.pose[2]), 0.05 * math.sin(robot.pose[2])
        truth[0] += 0.05
        robot.update()
    off = math.hypot(robot.knowledge.x - truth[0], robot.knowledge.y - truth[1])
    assert off < 0.25 * truth[0]
    assert math.hypot(robot.pose[0] - truth[0], robot.pose[1] - truth[1]) > truth[0] / 2


def test_x_is_zero_at_the_edge_of_the_drop_zone():
    robot = Robot(zone=Zone.DROP)
    knowledge = robot.knowledge
    robot.update(Zone.DROP, {101: Sight(-2.0, 0.3, 0.15)})
    assert knowledge.depth is None
    for _ in range(5):
        robot.pose[0] -= 0.1
        robot.update(Zone.DROP)
    robot.pose[0] -= 0.1
    robot.update(Zone.NEITHER)
    assert knowledge.edge_known
    # The edge was half a step ago.
    assert knowledge.x == pytest.approx(-0.05)
    assert knowledge.carriers[101].x == pytest.approx(-2.0 + 0.55)
    for _ in range(3):
        robot.pose[0] -= 0.1
        robot.update(Zone.NEITHER)
    robot.pose[0] -= 0.1
    robot.update(Zone.SEARCH)
    assert knowledge.search_edge == pytest.approx(-0.4)


def test_a_carrier_that_is_seen_is_free_outside_the_drop_zone_and_delivered_inside():
    robot = Robot(zone=Zone.DROP)
    robot.pose[0] -= 0.2
    robot.update(Zone.NEITHER)
    robot.update(sights={100: Sight(-2.0, 0.0, 0.3), 101: Sight(0.8, 1.0, 0.3)})
    carriers = robot.knowledge.carriers
    assert carriers[100].status is Status.FREE
    assert carriers[101].status is Status.DELIVERED
    # A hand puts it back.
    robot.update(sights={101: Sight(-1.0, 1.0, 0.5)})
    assert carriers[101].status is Status.FREE


def located(robot, name="b", origin=(0.5, -0.3)):
    """Let the robot know another one's frame."""
    robot.update(heard=[(name, told())], ranges=[(name, 1.0)])
    other = robot.knowledge.neighbours[name]
    for _ in range(6):
        other.shift.add_place(*origin, 0.05, 0.0)
    assert other.located
    return other


def test_what_another_tells_is_found_in_the_own_frame():
    robot = Robot()
    located(robot)
    item = Item(104, Status.FREE, 0.0, 2.0, 1.0, own=True)
    robot.update(heard=[("b", told(item=item))])
    carrier = robot.knowledge.carriers[104]
    assert carrier.status is Status.FREE
    assert (carrier.x, carrier.y) == pytest.approx((2.5, 0.7), abs=0.15)


def test_who_does_not_know_the_edge_of_the_drop_zone_does_not_unsay_what_is_delivered():
    robot = Robot(zone=Zone.DROP)
    robot.pose[0] -= 0.2
    robot.update(Zone.NEITHER)
    assert robot.knowledge.edge_known
    robot.update(sights={101: Sight(0.8, 1.0, 0.3)})
    located(robot)
    for x, expected in ((0.4, Status.DELIVERED), (-1.5, Status.FREE)):
        for _ in range(12):
            item = Item(101, Status.FREE, 0.0, x, 1.2, own=True)
            robot.update(heard=[("b", told(item=item, anchored=False))])
        assert robot.knowledge.carriers[101].status is expected


def test_what_others_say_is_delivered_is_so_for_who_does_not_know_the_edge():
    robot = Robot()
    located(robot)
    robot.update(heard=[("b", told(item=Item(101, Status.DELIVERED, 0.0, 0.8, 1.0), anchored=False))])
    carrier = robot.knowledge.carriers[101]
    assert carrier.status is Status.DELIVERED
    robot.update(sights={101: Sight(carrier.x, carrier.y, robot.time + 0.05)})
    assert carrier.status is Status.DELIVERED
    # But not if it was taken away from there.
    robot.update(sights={101: Sight(carrier.x - 1.0, carrier.y, robot.time + 0.05)})
    assert carrier.status is Status.FREE


def test_of_a_stranger_only_the_status_is_taken():
    robot = Robot()
    item = Item(104, Status.DELIVERED, 0.0, 2.0, 1.0)
    robot.update(heard=[("b", told(item=item))])
    carrier = robot.knowledge.carriers[104]
    assert carrier.status is Status.DELIVERED
    assert not carrier.placed


def test_old_news_are_no_news():
    robot = Robot()
    located(robot)
    for _ in range(50):
        robot.update()
    robot.update(sights={104: Sight(1.0, 0.0, robot.time)})
    robot.update(heard=[("b", told(item=Item(104, Status.GONE, 4.0, 0.0, 0.0)))])
    assert robot.knowledge.carriers[104].status is Status.FREE
    for _ in range(20):
        robot.update()
    robot.update(heard=[("b", told(item=Item(104, Status.GONE, 0.0, 0.0, 0.0)))])
    assert robot.knowledge.carriers[104].status is Status.GONE


def test_who_carries_a_carrier_has_it_until_it_is_put_down():
    robot = Robot()
    located(robot)
    robot.update(heard=[("b", told(State.CARRY, 1.0, 0.0, claim=104))])
    carrier = robot.knowledge.carriers[104]
    assert carrier.status is Status.TAKEN
    assert carrier.holder == "b"
    # It is seen on the way.
    robot.update(sights={104: Sight(1.6, -0.3, robot.time)})
    assert carrier.status is Status.TAKEN
    robot.update(heard=[("b", told(State.LEAVE, item=Item(104, Status.DELIVERED, 0.0, 3.0, 0.0, own=True)))])
    assert carrier.status is Status.DELIVERED
    assert carrier.holder == ""


def test_what_a_dead_robot_holds_up_stays_taken_but_not_elsewhere():
    robot = Robot()
    located(robot)
    robot.update(heard=[("b", told(State.CARRY, 1.0, 0.0, claim=104))])
    for _ in range(round(10 * SILENT) + 5):
        robot.update()
    carrier = robot.knowledge.carriers[104]
    # It rolled on a little when it died.
    robot.update(sights={104: Sight(1.7, -0.05, robot.time)})
    assert carrier.status is Status.TAKEN
    robot.update(sights={104: Sight(-1.5, 1.0, robot.time)})
    assert carrier.status is Status.FREE


def test_claims_end_with_silence():
    robot = Robot()
    robot.update(heard=[("b", told(State.APPROACH, claim=104, cost=1.0))])
    assert [other.name for other in robot.knowledge.rivals(104)] == ["b"]
    assert not list(robot.knowledge.rivals(103))
    for _ in range(round(10 * SILENT) + 2):
        robot.update()
    assert not list(robot.knowledge.rivals(104))


def test_bad_bytes_are_not_heard():
    robot = Robot()
    senses = Senses(1.0, np.zeros(3), np.zeros(3), heard={"ble": (RadioPacket(1.0, "b", b"nonsense"),)})
    robot.knowledge.update(replace(senses, ranges={"tof": np.full(16, 2.0)}), {})
    assert "b" not in robot.knowledge.neighbours


def test_every_carrier_is_told_in_turn():
    robot = Robot()
    sights = {100 + k: Sight(-1.0 - k, 0.0, 0.2) for k in range(4)}
    robot.update(sights=sights)
    items = [robot.knowledge.next_item() for _ in range(20)]
    assert {item.id for item in items if item} == set(sights)
    message = robot.knowledge.message(State.SEARCH, (1.0, 2.0), 101, 0.5)
    assert (message.aim_x, message.aim_y) == pytest.approx((1.0, 2.0))
    assert message.claim == 101


def test_two_robots_that_wander_and_talk_find_each_other():
    rng = np.random.default_rng(5)
    one, two = Robot("a"), Robot("b")
    starts = np.array([[0.0, 0.0], [1.0, -1.5]])
    for k in range(150):
        for robot, phase in ((one, 0.0), (two, 2.0)):
            robot.pose[:2] += 0.05 * math.cos(0.05 * k + phase), 0.05 * math.sin(0.05 * k + phase)
        places = starts + np.array([one.pose[:2], two.pose[:2]])
        distance = math.hypot(*(places[0] - places[1])) + rng.normal(0, 0.1)
        messages = [robot.knowledge.message(State.SEARCH, (0.0, 0.0), None, 0.0) for robot in (one, two)]
        one.update(heard=[("b", messages[1])], ranges=[("b", max(distance, 0.0))])
        two.update(heard=[("a", messages[0])], ranges=[("a", max(distance, 0.0))])
    other = one.knowledge.neighbours["b"]
    assert other.located
    assert (other.x, other.y) == pytest.approx(places[1] - starts[0], abs=0.3)


def test_ground_that_was_seen_is_not_looked_at_again():
    ground = Ground()
    ground.clear(0.0, 0.0, 0.0, np.full(16, 2.0), ANGLES, 0.125, 2.5)
    ground.see(0.0, 0.0, 0.7, 1.0)
    place = ground.explore(0.0, 0.0, 2.0, 9.0, [], None, 25.0)
    assert place is not None
    assert 0.5 < math.hypot(*place) < 2.2
    ground.see(0.0, 0.0, 3.0, 2.0)
    assert ground.explore(0.0, 0.0, 3.0, 9.0, [], None, 25.0) is None
    assert ground.explore(0.0, 0.0, 40.0, 9.0, [], None, 25.0) is not None


def test_nobody_looks_where_somebody_else_is():
    ground = Ground()
    ground.clear(0.0, 0.0, 0.0, np.full(16, 2.0), ANGLES, 0.125, 2.5)
    ground.see(0.0, 0.0, 0.7, 1.0)
    left = ground.explore(0.0, 0.0, 2.0, 9.0, [(0.0, -1.2), (-1.2, 0.0), (1.2, 0.0)], None, 25.0)
    assert left is not None
    assert left[1] > abs(left[0])


def test_only_beyond_the_edge_is_searched_and_nothing_behind_walls():
    ground = Ground()
    assert ground.explore(0.0, 0.0, 2.0, 9.0, [], None, 25.0) is None
    ground.clear(0.0, 0.0, 0.0, np.full(16, 2.0), ANGLES, 0.125, 2.5)
    place = ground.explore(0.0, 0.0, 2.0, -0.5, [], None, 25.0)
    assert place is not None
    assert place[0] < -0.5
    assert math.hypot(*place) < 2.2


def test_ground_moves_with_the_frame():
    ground = Ground()
    ground.see(1.0, 0.0, 0.2, 7.0)
    before = np.argwhere(ground.seen == 7.0)
    ground.shift(-4 * CELL)
    assert np.argwhere(ground.seen == 7.0).tolist() == (before - (4, 0)).tolist()
    ground.shift(1e6)
    assert not (ground.seen == 7.0).any()


def test_far_away_is_no_error():
    ground = Ground()
    ground.see(1000.0, -1000.0, 0.7, 1.0)
    ground.clear(1000.0, 0.0, 0.0, np.full(16, 2.0), ANGLES, 0.125, 2.5)
    assert not ground.free.any()


def told_of(robot, sender, status, x, **more):
    """Let the robot hear of a carrier at some place along x of its own frame."""
    other = robot.knowledge.neighbours[sender]
    item = Item(104, status, 0.0, x - other.shift.x, 0.5 - other.shift.y)
    robot.update(heard=[(sender, told(item=item, **more))])


def test_what_its_carrier_puts_down_in_sight_is_free_again():
    robot = Robot()
    located(robot)
    # Another one carries it past and sets it down here, before the robot's eyes.
    robot.update(heard=[("b", told(State.CARRY, 0.2, 0.8, claim=104))])
    carrier = robot.knowledge.carriers[104]
    assert (carrier.status, carrier.holder) == (Status.TAKEN, "b")
    robot.update(sights={104: Sight(0.7, 0.5, robot.time + 0.05)})
    assert carrier.status is Status.TAKEN
    robot.update(heard=[("b", told(State.SEARCH, 0.2, 0.8))])
    assert carrier.holder == ""
    robot.update(sights={104: Sight(0.7, 0.5, robot.time + 0.05)})
    assert carrier.status is Status.FREE
    # Whoever has only heard that somebody has it does not know better.
    for _ in range(10):
        told_of(robot, "b", Status.TAKEN, 0.7)
    assert carrier.status is Status.FREE
    # But whoever takes it says so himself.
    robot.update(heard=[("b", told(State.CARRY, 0.2, 0.8, claim=104))])
    assert carrier.status is Status.TAKEN


def test_what_a_silent_robot_has_on_it_stays_its_own():
    robot = Robot()
    located(robot)
    robot.update(heard=[("b", told(State.CARRY, 0.2, 0.8, claim=104))])
    carrier = robot.knowledge.carriers[104]
    for _ in range(60):
        robot.update(sights={104: Sight(0.7, 0.5, robot.time + 0.05)})
    assert robot.time > SILENT
    assert (carrier.status, carrier.holder) == (Status.TAKEN, "b")
