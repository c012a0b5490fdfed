import math

import numpy as np
import pytest
from py_trees.common import Status
from swarmbed_behaviours.toolkit import (
    Board,
    ComeOut,
    Docking,
    DockingParameters,
    NoticesCarrier,
    pick_up,
)
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import between
from swarmbed_core.robot import Command

CARRIER = (-1.0, 0.5, 0.6)


def docking_of(robot, accept=lambda *_: True, **parameters):
    board = Board(robot, np.random.default_rng(0))
    return Docking(board, DockingParameters(**parameters), accept)


def tick(node, docking):
    board = docking.board
    board.begin()
    node.tick_once()
    board.end()
    return node.status


def run(node, docking, swarm, seconds, each=lambda: None):
    """Tick a node until it ends."""
    for _ in range(round(seconds * 10)):
        status = tick(node, docking)
        each()
        if status is not Status.RUNNING:
            return status
        swarm.run(0.1)
    return node.status


def around(bearing, distance, carrier=CARRIER):
    """A robot's place round the carrier."""
    angle = carrier[2] + math.radians(bearing)
    return (carrier[0] + distance * math.cos(angle), carrier[1] + distance * math.sin(angle), bearing / 7.0)


@pytest.mark.parametrize(("bearing", "distance"), [(0, 0.9), (20, 0.6), (44, 0.8), (95, 1.0), (-130, 0.7)])
def test_a_carrier_in_sight_is_lifted_without_touching_its_legs(carrier_arena, bearing, distance):
    world, swarm, eyes = carrier_arena(around(bearing, distance), CARRIER)
    docking = docking_of(swarm.robots[0])
    notices, pick = NoticesCarrier(docking), pick_up(docking)
    assert tick(notices, docking) is Status.SUCCESS
    least = []
    assert run(pick, docking, swarm, 25.0, lambda: least.append(eyes.clearance())) is Status.SUCCESS
    assert min(least) > 0.004
    x, y, yaw = between(CARRIER, world.truth()[0, :3])
    assert math.hypot(x, y) < 0.008
    assert math.sin(2 * yaw) == pytest.approx(0.0, abs=0.05)
    assert docking.board.platform_up
    assert docking.board.carrying


def test_a_robot_that_is_under_a_carrier_lifts_it(carrier_arena):
    world, swarm, _ = carrier_arena((CARRIER[0] + 0.005, CARRIER[1], 1.0), CARRIER)
    docking = docking_of(swarm.robots[0])
    assert tick(NoticesCarrier(docking), docking) is Status.SUCCESS
    assert run(pick_up(docking), docking, swarm, 10.0) is Status.SUCCESS
    assert np.hypot(*between(CARRIER, world.truth()[0, :3])[:2]) < 0.008


def test_a_carrier_that_is_not_wanted_is_not_noticed(carrier_arena):
    for start in (around(0, 0.8), CARRIER):
        _, swarm, _ = carrier_arena(start, CARRIER)
        asked = []
        docking = docking_of(swarm.robots[0], lambda _, place, asked=asked: asked.append(place))
        assert tick(NoticesCarrier(docking), docking) is Status.FAILURE
        assert between(swarm.robots[0].sense().pose_odom, asked[0])[:2] == pytest.approx(
            between(start, CARRIER)[:2], abs=0.1
        )


def test_a_carrier_that_is_taken_away_is_lost_and_not_given_up(carrier_arena):
    _, swarm, eyes = carrier_arena(around(0, 1.1), CARRIER)
    docking = docking_of(swarm.robots[0])
    pick = pick_up(docking)
    tick(NoticesCarrier(docking), docking)
    assert run(pick, docking, swarm, 0.5) is Status.RUNNING
    eyes.blind = True
    assert run(pick, docking, swarm, 5.0) is Status.FAILURE
    assert docking.why == "lost"
    assert docking.target is None
    assert not docking.board.is_given_up(100)


def test_a_robot_that_drives_in_blind_goes_on_and_fails_at_the_end(carrier_arena):
    world, swarm, eyes = carrier_arena(around(0, 0.7), CARRIER)
    docking = docking_of(swarm.robots[0])
    pick = pick_up(docking)
    tick(NoticesCarrier(docking), docking)

    def shut_eyes():
        eyes.blind |= np.hypot(*between(CARRIER, world.truth()[0, :3])[:2]) < 0.165 + 0.2

    assert run(pick, docking, swarm, 20.0, shut_eyes) is Status.FAILURE
    assert docking.why == "no markermap"
    assert np.hypot(*between(CARRIER, world.truth()[0, :3])[:2]) < 0.125
    assert docking.board.is_given_up(100)


def test_what_takes_too_long_is_given_up(carrier_arena):
    _, swarm, _ = carrier_arena(around(0, 0.9), CARRIER)
    docking = docking_of(swarm.robots[0], time_limit=1.0)
    tick(NoticesCarrier(docking), docking)
    assert run(pick_up(docking), docking, swarm, 3.0) is Status.FAILURE
    assert docking.board.is_given_up(100)
    assert tick(NoticesCarrier(docking), docking) is Status.FAILURE


@pytest.mark.parametrize("off", [0.0, 0.08])
def test_a_carrier_with_a_robot_below_is_taken(carrier_arena, off):
    other = (CARRIER[0] + off, CARRIER[1], 0.0)
    world, swarm, _ = carrier_arena(around(0, 0.7), CARRIER, other)
    docking = docking_of(swarm.robots[0])
    assert tick(NoticesCarrier(docking), docking) is Status.SUCCESS
    assert run(pick_up(docking), docking, swarm, 20.0) is Status.FAILURE
    assert docking.why in {"taken", "blocked"}
    assert docking.board.is_given_up(100)
    assert tick(NoticesCarrier(docking), docking) is Status.FAILURE
    gap = np.hypot(*(world.truth()[0, :2] - world.truth()[1, :2])) - 0.25
    assert gap > 0.1


def test_a_robot_that_cannot_reach_the_centre_gives_up_and_comes_out_where_it_came_in(carrier_arena):
    x, y, _ = around(10, 0.08)
    world, swarm, eyes = carrier_arena((x, y, 0.0), CARRIER)
    docking = docking_of(swarm.robots[0])
    notices, pick = NoticesCarrier(docking), pick_up(docking)
    assert tick(notices, docking) is Status.SUCCESS
    # Something holds it: here its own drives.
    swarm.robots[0].act(Command(motors=False))
    assert run(pick, docking, swarm, 20.0) is Status.FAILURE
    swarm.robots[0].act(Command(motors=True))
    assert docking.why == "stuck"
    assert tick(notices, docking) is Status.FAILURE
    least = []
    out = ComeOut(docking, lambda _: CARRIER[2] + math.pi)
    assert run(out, docking, swarm, 10.0, lambda: least.append(eyes.clearance())) is Status.SUCCESS
    assert min(least) > 0.0
    assert between(CARRIER, world.truth()[0, :3])[0] > 0.35
    swarm.run(docking.parameters.give_up * 1.5)
    world.teleport("dots1", CARRIER)
    swarm.run(0.5)
    assert tick(notices, docking) is Status.SUCCESS


def test_a_robot_behind_a_carrier_does_not_take_it(carrier_arena):
    # Right in the line of sight, beyond the carrier.
    x, y, _ = around(180, 0.165 + 0.16)
    _, swarm, _ = carrier_arena(around(0, 0.7), CARRIER, (x, y, 0.0))
    docking = docking_of(swarm.robots[0])
    assert tick(NoticesCarrier(docking), docking) is Status.SUCCESS
    assert run(pick_up(docking), docking, swarm, 20.0) is Status.SUCCESS


@pytest.mark.parametrize("prefer", [-2.0, 0.3, 2.9])
def test_a_robot_comes_out_on_the_side_that_is_preferred(carrier_arena, prefer):
    world, swarm, eyes = carrier_arena((CARRIER[0] + 0.004, CARRIER[1] - 0.003, 0.2), CARRIER)
    docking = docking_of(swarm.robots[0])
    least = []
    out = ComeOut(docking, lambda _: prefer)
    assert run(out, docking, swarm, 10.0, lambda: least.append(eyes.clearance())) is Status.SUCCESS
    assert min(least) > 0.004
    dx, dy = world.truth()[0, :2] - CARRIER[:2]
    assert math.hypot(dx, dy) > 0.165 + 0.125 + 0.08
    assert abs(math.remainder(math.atan2(dy, dx) - prefer, 2 * math.pi)) < math.radians(50)


def test_a_robot_comes_out_where_nothing_stands(carrier_arena):
    # The wall is 0.4 m from the middle of the carrier, on the side that is preferred.
    carrier = (-2.1, 0.0, 0.0)
    world, swarm, _ = carrier_arena((-2.1, 0.0, 0.0), carrier)
    swarm.run(1.0)
    out = ComeOut(docking_of(swarm.robots[0]), lambda _: math.pi)
    assert run(out, out._docking, swarm, 10.0) is Status.SUCCESS
    assert abs(world.truth()[0, 1]) > 0.35


def test_where_there_is_no_carrier_there_is_nothing_to_come_out_from(carrier_arena):
    world, swarm, eyes = carrier_arena((0.0, 0.0, 0.0), CARRIER)
    docking = docking_of(swarm.robots[0])
    out = ComeOut(docking, lambda _: 0.0)
    assert run(out, docking, swarm, 2.0) is Status.SUCCESS
    assert np.hypot(*world.truth()[0, :2]) < 0.01
    assert eyes.clearance() > 0.5


def test_a_load_that_does_not_come_up_is_put_down_again(fake):
    board = Board(fake, np.random.default_rng(1))
    docking = Docking(board, DockingParameters(), lambda *_: True)
    lift = pick_up(docking).decorated.children[-1]
    docking.begin(board)
    for k in range(80):
        fake.set(time=0.1 * k)
        board.begin()
        lift.tick_once()
        board.end()
        if lift.status is Status.FAILURE:
            break
    assert fake.commands[0].carrying
    assert fake.commands[0].lift
    assert 4.9 < board.time < 5.3
    board.begin()
    docking.leave(board)
    board.end()
    assert fake.commands[-1].carrying is False
    assert fake.commands[-1].lift is False
    assert not board.carrying


@pytest.mark.parametrize("kind", ["epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_a_kind_that_cannot_lift_carriers_is_refused_at_once(fake_of, kind):
    with pytest.raises(ConfigError, match=f"a {kind} cannot pick up carriers: its file has no "):
        docking_of(fake_of(kind))
