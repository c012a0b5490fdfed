from __future__ import annotations

import math

import numpy as np
import pytest
from py_trees.common import Status as Result
from swarmbed_behaviours.cooperative import Cooperative
from swarmbed_behaviours.errands import Deliver, Progress
from swarmbed_behaviours.knowledge import Carrier
from swarmbed_behaviours.talk import Item, Message, State, Status, decode, encode
from swarmbed_core.controller import find_controller
from swarmbed_core.device import RadioPacket, Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import between


def cooperative(robot, seed=0, **parameters):
    found, checked = find_controller("cooperative", parameters, "test")
    assert found is Cooperative
    return found(robot, checked, np.random.default_rng(seed))


def packets(name, message, stamp, distance=None):
    heard = {"ble": (RadioPacket(stamp, name, encode(message)),)}
    if distance is not None:
        heard["uwb"] = (RadioPacket(stamp, name, distance=distance),)
    return heard


def run(controller, fake, ticks, **senses):
    """Tick with the same senses, time passing; return the commands."""
    for _ in range(ticks):
        fake.set(time=fake.senses.time + 0.1, **senses)
        controller.tick()
    return fake.commands[-ticks:]


def known(controller, number, x, y, status=Status.FREE):
    controller.knowledge.carriers[number] = Carrier(number, status, controller.knowledge.time, x, y)


def test_a_carrier_is_found_lifted_brought_and_left_without_any_message(carrier_arena):
    world, swarm, eyes = carrier_arena((1.6, 0.2, 1.0), (-0.8, 0.3, 0.4))
    controller = cooperative(swarm.robots[0])
    done, lifted_at, least = [], None, math.inf
    for _ in range(700):
        controller.tick()
        if not done or done[-1] != controller.doing:
            done.append(controller.doing)
        robot = world.truth()[0, :3]
        if world.device("dots1").lifter.read().height > 0.175:
            if lifted_at is None:
                lifted_at = between(robot, eyes.pose)
            c, s = math.cos(robot[2]), math.sin(robot[2])
            dx, dy, turn = lifted_at
            eyes.pose = np.array([robot[0] + c * dx - s * dy, robot[1] + s * dx + c * dy, robot[2] + turn])
        else:
            least = min(least, eyes.clearance())
        swarm.run(0.1)
        if done[-4:] == ["pick up", "deliver", "come out", "find"]:
            break
    assert done[-4:] == ["pick up", "deliver", "come out", "find"]
    assert least > 0.003
    assert eyes.pose[0] > 1.25 + 0.165
    assert controller.knowledge.carriers[100].status is Status.DELIVERED
    # From here on the carrier is left alone.
    brought = eyes.pose.copy()
    for _ in range(100):
        controller.tick()
        swarm.run(0.1)
        assert controller.doing == "find"
    assert eyes.pose == pytest.approx(brought)
    assert eyes.clearance() > 0.0


def test_it_says_where_it_is_ten_times_a_second(fake):
    controller = cooperative(fake)
    commands = run(controller, fake, 5)
    messages = [decode(command.send["ble"]) for command in commands]
    assert None not in messages
    assert [message.counter for message in messages] == [1, 2, 3, 4, 5]
    assert messages[-1].state is State.SEARCH


def test_it_goes_to_the_nearest_carrier_and_claims_it(fake):
    controller = cooperative(fake)
    run(controller, fake, 1)
    known(controller, 101, -3.0, 0.0)
    known(controller, 102, 0.0, 1.5)
    command = run(controller, fake, 1)[0]
    message = decode(command.send["ble"])
    assert (message.state, message.claim) == (State.APPROACH, 102)
    assert message.cost == pytest.approx(1.5, abs=0.06)
    vx, vy, _ = command.velocity_body
    assert vy > 0.4
    assert abs(vx) < 0.1


@pytest.mark.parametrize("status", [Status.TAKEN, Status.DELIVERED, Status.GONE])
def test_a_carrier_that_is_not_free_is_left_alone(fake, status):
    controller = cooperative(fake)
    run(controller, fake, 1)
    known(controller, 102, 0.0, 1.5, status)
    run(controller, fake, 1)
    assert controller.state is State.SEARCH
    assert controller.target is None


@pytest.mark.parametrize(
    ("state", "cost", "goes"),
    [
        (State.APPROACH, 0.8, False),
        (State.APPROACH, 1.8, False),
        (State.APPROACH, 3.0, True),
        (State.DOCK, 3.0, False),
        (State.CARRY, 0.0, False),
    ],
)
def test_who_has_the_better_claim_gets_it(fake, state, cost, goes):
    controller = cooperative(fake)
    run(controller, fake, 1)
    known(controller, 102, 0.0, 1.5)
    rival = Message(state, False, 0, 5.0, 5.0, claim=102, cost=cost)
    run(controller, fake, 1, heard=packets("dots9", rival, fake.senses.time))
    assert (controller.target == 102) is goes


def test_of_two_that_claim_the_same_exactly_one_keeps_it(fake_of):
    robots = [fake_of("dots"), fake_of("dots")]
    robots[1].name = "dots2"
    controllers = [cooperative(robot) for robot in robots]
    for controller, robot in zip(controllers, robots, strict=True):
        run(controller, robot, 1)
        known(controller, 102, 0.0, 1.5)
        run(controller, robot, 1)
        assert controller.target == 102
    told = [robot.commands[-1].send["ble"] for robot in robots]
    for k in range(2):
        message = decode(told[1 - k])
        run(controllers[k], robots[k], 1, heard=packets(robots[1 - k].name, message, robots[k].senses.time))
    assert [controller.target for controller in controllers] == [102, None]


def test_a_claim_of_a_silent_robot_ends(fake):
    controller = cooperative(fake)
    run(controller, fake, 1)
    known(controller, 102, 0.0, 1.5)
    rival = Message(State.APPROACH, False, 0, 5.0, 5.0, claim=102, cost=0.5)
    run(controller, fake, 1, heard=packets("dots9", rival, fake.senses.time))
    assert controller.target is None
    run(controller, fake, 40, heard={})
    assert controller.target == 102


def test_a_carrier_that_is_not_where_it_was_is_gone(fake):
    controller = cooperative(fake)
    run(controller, fake, 1)
    known(controller, 102, 0.0, 0.4)
    run(controller, fake, 25)
    assert controller.knowledge.carriers[102].status is Status.GONE
    item = Item(102, Status.GONE, 0.0, 0.0, 0.4)
    told = [decode(command.send["ble"]).item for command in run(controller, fake, 3)]
    assert any(one is not None and (one.id, one.status) == (item.id, item.status) for one in told)


def test_it_never_drives_into_what_it_sees(fake):
    controller = cooperative(fake)
    sweep = np.full(16, 2.5)
    sweep[7:10] = 0.03
    run(controller, fake, 1)
    for command in run(controller, fake, 10, ranges={"tof": sweep}):
        vx, _, _ = command.velocity_body
        assert vx > -0.05


def test_it_spares_a_robot_that_has_the_right_of_way(fake):
    controller = cooperative(fake)
    run(controller, fake, 1, ranges={"tof": np.full(16, 2.5)})
    carrying = Message(State.CARRY, False, 0, 0.0, 0.0, claim=103)
    for _ in range(3):
        run(controller, fake, 1, heard=packets("dots9", carrying, fake.senses.time, distance=0.6))
    other = controller.knowledge.neighbours["dots9"]
    for _ in range(5):
        other.shift.add_place(-0.55, 0.0, 0.05, 0.0)
    command = run(controller, fake, 1, heard=packets("dots9", carrying, fake.senses.time, distance=0.55))[0]
    vx, _, _ = command.velocity_body
    assert vx > -0.2


def test_who_starts_with_the_platform_up_lowers_it(fake):
    controller = cooperative(fake)
    assert run(controller, fake, 1, lifter_height=0.197)[0].lift is False


def test_towards_the_search_zone_first(fake):
    controller = cooperative(fake)
    vx, vy, _ = run(controller, fake, 1, zone=Zone.DROP, heading=math.pi / 2)[0].velocity_body
    # Facing north, the search zone is to the left.
    assert vy > 0.5
    assert abs(vx) < 0.1


def test_wrong_parameters_are_refused():
    with pytest.raises(ConfigError, match="depth"):
        find_controller("cooperative", {"depth": -1.0}, "test")
    with pytest.raises(ConfigError, match="haste"):
        find_controller("cooperative", {"haste": 1.0}, "test")


def before_the_drop_zone(fake, *delivered, walls=()):
    """Return a robot half a metre before the drop zone's edge, and its way into it."""
    controller = cooperative(fake)
    run(controller, fake, 1)
    knowledge = controller.knowledge
    knowledge.edge_known, knowledge.x = True, -0.5
    for k, (x, y) in enumerate(delivered):
        known(controller, 110 + k, x, y, Status.DELIVERED)
    # Walls are what distance sensors see, and no carrier.
    for k, (x, y) in enumerate(walls):
        controller._memory[k] = (x, y, knowledge.time)
    controller._gathered = -math.inf
    return controller, Deliver(controller)


def test_an_empty_drop_zone_is_entered_straight_ahead(fake):
    controller, deliver = before_the_drop_zone(fake)
    depth, y = deliver._find_slot()
    assert depth == pytest.approx(controller.parameters.depth)
    assert abs(y) < 0.06


def test_carriers_are_put_down_beside_each_other(fake):
    controller, deliver = before_the_drop_zone(fake, (0.6, 0.0), (0.6, 0.7))
    _, y = deliver._find_slot()
    assert -0.7 < y <= -controller.parameters.apart + 1e-9


def test_no_carrier_is_taken_into_a_wall(fake):
    controller, deliver = before_the_drop_zone(
        fake, (0.6, 0.0), (0.6, 1.2), walls=[(0.3, -0.6), (0.0, -0.6), (0.3, 2.5)]
    )
    depth, y = deliver._find_slot()
    assert y > 0.6
    assert y < 2.5 - controller.radius
    # Between the two there is no room.
    assert abs(y - 1.2) >= controller.parameters.apart - 1e-9
    assert depth >= controller.parameters.least_depth


def test_a_deep_row_leaves_room_for_one_before_it(fake):
    _, deliver = before_the_drop_zone(fake, *[(1.6, 0.5 * k) for k in range(-9, 10)])
    depth, _ = deliver._find_slot()
    assert 0.8 < depth < 1.2


def test_it_does_not_go_to_and_fro_between_two_places(fake):
    controller, deliver = before_the_drop_zone(fake, (0.6, -0.5), (0.6, 0.45))
    places = []
    for k in range(40):
        # A wall that seems nearer from time to time.
        y = 1.25 if k % 3 else 1.21
        controller._memory[0] = (0.3, y, controller.knowledge.time)
        controller._gathered = -math.inf
        deliver._slot = deliver._find_slot()
        if deliver._slot is not None:
            places.append(deliver._slot[1])
            controller.knowledge.y += 0.05 * np.sign(deliver._slot[1] - controller.knowledge.y)
    assert (np.abs(np.diff(np.sign(places))) > 0).sum() <= 1


def test_getting_on_is_told_from_going_to_and_fro():
    progress = Progress()
    progress.start(0.0)
    assert not any(progress.stuck(0.1 * k, 0.05 * k, 0.0, (5.0, 0.0), 2.0) for k in range(80))
    progress.start(0.0)
    assert any(progress.stuck(0.1 * k, 0.04 * (k % 2), 0.0, (5.0, 0.0), 2.0) for k in range(80))
    progress.start(0.0)
    # Another goal every second, and none is reached.
    assert any(progress.stuck(0.1 * k, 0.0, 0.0, (0.0, 3.0 * (-1) ** (k // 10)), 2.0) for k in range(80))


def loaded(fake, **senses):
    """Return a robot that has just lifted a carrier that it has never seen from outside."""
    controller = cooperative(fake)
    run(controller, fake, 1, **senses)
    controller.board.carrying = True
    controller.taken(controller.board)
    return controller


def test_who_carries_what_it_has_not_seen_learns_from_the_others_which_it_is(fake):
    controller = loaded(fake)
    assert controller.target is None
    known(controller, 101, 0.1, -0.2)
    known(controller, 102, 0.4, 0.2)
    known(controller, 103, 0.1, 0.0, Status.TAKEN)
    controller.knowledge.carriers[103].holder = "dots9"
    known(controller, 104, 0.0, 0.1, Status.GONE)
    controller.own_up()
    assert controller.target == 101
    carriers = controller.knowledge.carriers
    assert (carriers[101].status, carriers[101].holder) == (Status.TAKEN, fake.name)
    assert carriers[102].status is Status.FREE


@pytest.mark.parametrize("degrees", range(-180, 180, 15))
def test_a_side_of_the_load_goes_first_and_no_leg(fake, degrees):
    controller = loaded(fake)
    controller._load_yaw = math.radians(70.0)
    direction = math.radians(degrees)
    vx, vy, face = controller._look_past_the_legs(0.5 * math.cos(direction), 0.5 * math.sin(direction))
    assert math.atan2(vy, vx) == pytest.approx(math.atan2(math.sin(direction), math.cos(direction)))
    # Turned as it wants to be, a side looks where it goes.
    off = (direction - face - controller._load_yaw) % (math.pi / 2)
    assert min(off, math.pi / 2 - off) == pytest.approx(0.0, abs=1e-9)
    turn = abs(math.remainder(face - controller.board.heading, math.tau))
    assert turn <= math.pi / 4 + 1e-9
    assert math.hypot(vx, vy) == pytest.approx(0.15 if turn > math.radians(25.0) else 0.5)


def delivering(controller, fake, ticks, each=lambda: None):
    """Return what a delivery says in each tick."""
    deliver, said = Deliver(controller), []
    for _ in range(ticks):
        fake.set(time=fake.senses.time + 0.1)
        controller.board.begin()
        each()
        controller.knowledge.update(controller.board.senses, controller.board.carriers)
        controller._look_around()
        deliver.tick_once()
        said.append(deliver.status)
    return said


@pytest.mark.parametrize(("gap", "anew"), [(0.05, True), (0.3, False)])
def test_a_load_that_has_shifted_is_taken_anew_but_not_one_that_has_to_wait(fake, gap, anew):
    # All around, something is as near as its own legs can be, or stands in its way.
    controller = loaded(fake, ranges={"tof": np.full(16, gap)})
    said = delivering(controller, fake, 200)
    assert (Result.FAILURE in said) is anew
    # It is not the first thing that is tried.
    assert Result.FAILURE not in said[:35]


def test_a_load_is_not_put_down_because_others_with_the_right_of_way_are_near(fake):
    controller = loaded(fake, ranges={"tof": np.full(16, 0.4)})
    first = Message(State.DEPOSIT, False, 0, 0.0, 0.0, claim=103)

    def near():
        other = controller.knowledge._neighbour("dots9")
        other.message, other.stamp = first, controller.board.time
        if not other.shift.known:
            other.shift.add_range(0.0, 0.0, 0.54, 0.05)
        for _ in range(5):
            other.shift.add_place(0.54, 0.0, 0.05, 0.0)

    assert Result.FAILURE not in delivering(controller, fake, 200, near)
    assert controller.knowledge.neighbours["dots9"].located


def test_what_is_put_down_stands_there_for_everybody(fake):
    controller = loaded(fake)
    known(controller, 101, 0.1, 0.0)
    controller.own_up()
    assert controller.knowledge.carriers[101].status is Status.TAKEN
    controller.knowledge.x = -0.7
    controller.put_down(controller.board)
    carrier = controller.knowledge.carriers[101]
    assert (carrier.status, carrier.holder, carrier.x) == (Status.FREE, "", -0.7)
    assert controller.target is None
