import math

import numpy as np
import pytest
from py_trees.common import Status
from swarmbed_behaviours.toolkit import (
    Board,
    Carrying,
    Check,
    CollisionAhead,
    Heard,
    InZone,
    PlatformDown,
    PlatformUp,
    SeesCarrier,
    SeesUnderside,
)
from swarmbed_core.collision_map import CollisionMap
from swarmbed_core.device import RadioPacket, Zone
from swarmbed_core.markers import SideSight, UndersideSight


@pytest.fixture
def board(fake):
    return Board(fake, np.random.default_rng(0))


def answers(condition, **senses):
    """Whether a condition holds at new senses, by its status."""
    condition.board.robot.set(**senses)
    condition.board.begin()
    condition.tick_once()
    assert condition.status in {Status.SUCCESS, Status.FAILURE}
    return condition.status is Status.SUCCESS


def test_a_carrier_is_seen_while_its_side_is_and_unless_given_up(board):
    seen = SeesCarrier(board)
    pose = np.array([1.0, 0.0, math.pi])
    sight = SideSight(100, 0.0, "cam0", pose, np.eye(3) * 1e-4, True, 0.0, 1, pose)
    assert not answers(seen)
    assert answers(seen, carrier=sight)
    board.give_up(100, 2.0)
    assert not answers(seen)
    assert answers(seen, time=2.0)
    assert not answers(seen, carrier=None)


def test_an_underside_is_seen_when_its_place_is_known(board):
    below = SeesUnderside(board)
    pose = np.zeros(3)
    assert not answers(below)
    assert answers(below, underside=UndersideSight(0.0, pose, np.eye(3), 4, pose))
    assert not answers(below, underside=UndersideSight(0.0, pose, np.eye(3), 4))


def test_zones(board):
    home = InZone(board, Zone.DROP)
    assert home.name == "in drop zone"
    assert not answers(home)
    assert answers(home, zone=Zone.DROP)
    assert not answers(home, zone=Zone.SEARCH)


def test_the_platform(board):
    up, down = PlatformUp(board), PlatformDown(board)
    heights = {0.145: (False, True), 0.17: (False, False), 0.197: (True, False)}
    for height, expected in heights.items():
        assert (answers(up, lifter_height=height), answers(down)) == expected


def test_carrying_is_what_the_robot_has_told_itself(board):
    carrying = Carrying(board)
    assert not answers(carrying)
    board.carry(True)
    assert answers(carrying)


def test_heard_takes_what_fits(board):
    anything = Heard(board, "ble")
    hello = Heard(board, "ble", lambda packet: packet.payload == b"hello")
    assert not answers(anything)
    assert answers(anything, heard={"ble": (RadioPacket(0.0, "dots2", b"bye"),)})
    assert not answers(hello)
    assert answers(hello, heard={"ble": (RadioPacket(0.0, "dots2", b"hello"),)})
    assert not answers(hello, heard={"uwb": (RadioPacket(0.0, "dots2", b"hello"),)})


def test_collision_ahead(board):
    grid = CollisionMap(board.spec)
    for k in range(20):
        grid.update(0.02 * k, (0.0, 0.0, 0.0), [(0.4, 0.0)])
    for direction, expected in ((0.0, True), (math.pi, False)):
        ahead = CollisionAhead(board, lambda _, d=direction: d, 0.5, 0.8, 0.05)
        assert answers(ahead, collision_map=grid) is expected


def test_a_check_asks_a_function(board):
    late = Check("late", board, lambda board: board.time > 5)
    assert not answers(late)
    assert answers(late, time=6.0)
