import numpy as np
import pytest
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from swarmbed_behaviours.toolkit import Board, Cooldown, OnFailure, TimeLimit


class Script(Behaviour):
    """Returns what it is told to."""

    def __init__(self):
        super().__init__("script")
        self.result = Status.RUNNING
        self.ticks = 0
        self.cut_off = 0

    def update(self):
        self.ticks += 1
        return self.result

    def terminate(self, new_status):
        self.cut_off += new_status is Status.INVALID


@pytest.fixture
def board(fake):
    return Board(fake, np.random.default_rng(0))


@pytest.fixture
def script():
    return Script()


def tick(node, board, time):
    board.robot.set(time=time)
    board.begin()
    node.tick_once()
    return node.status


def test_a_time_limit_fails_what_runs_too_long_and_stops_it(board, script):
    limit = TimeLimit(board, script, 2.0)
    assert limit.name == "at most 2 s"
    assert tick(limit, board, 10.0) is Status.RUNNING
    assert tick(limit, board, 11.9) is Status.RUNNING
    assert tick(limit, board, 12.0) is Status.FAILURE
    assert script.status is Status.INVALID
    assert script.cut_off == 1
    # It counts anew.
    assert tick(limit, board, 12.1) is Status.RUNNING
    script.result = Status.SUCCESS
    assert tick(limit, board, 14.2) is Status.SUCCESS


def test_a_cooldown_lets_the_child_rest_once_it_has_ended(board, script):
    rest = Cooldown(board, script, 5.0)
    assert tick(rest, board, 0.0) is Status.RUNNING
    script.result = Status.SUCCESS
    assert tick(rest, board, 1.0) is Status.SUCCESS
    assert tick(rest, board, 5.9) is Status.FAILURE
    assert script.ticks == 2
    assert tick(rest, board, 6.0) is Status.SUCCESS
    assert script.ticks == 3


def test_something_is_done_on_failure_only(board, script):
    done = []
    watched = OnFailure(board, script, done.append)
    for result in (Status.RUNNING, Status.SUCCESS):
        script.result = result
        assert tick(watched, board, 0.0) is result
    assert not done
    script.result = Status.FAILURE
    assert tick(watched, board, 0.0) is Status.FAILURE
    assert done == [board]
