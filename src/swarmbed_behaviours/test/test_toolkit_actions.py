import math

import numpy as np
import pytest
from py_trees.common import Status
from swarmbed_behaviours.toolkit import (
    Board,
    Do,
    Escape,
    GoTo,
    Lift,
    Lower,
    Stop,
    Wait,
    Wander,
    way_likelihood,
)
from swarmbed_core.collision_map import CollisionMap


def board_of(robot):
    return Board(robot, np.random.default_rng(0))


def tick(node, **senses):
    """Tick a node at new senses; return its status and what was commanded."""
    board = node.board
    if senses:
        board.robot.set(**senses)
    board.begin()
    node.tick_once()
    board.end()
    return node.status


def drive(node, swarm, seconds):
    """Tick a node until it ends or the time is over."""
    for _ in range(round(seconds * 10)):
        status = tick(node)
        swarm.run(0.1)
        if status is not Status.RUNNING:
            break
    return node.status


def grid_with(spec, *points):
    grid = CollisionMap(spec)
    for k in range(30):
        grid.update(0.02 * k, (0.0, 0.0, 0.0), points)
    return grid


def test_do_and_stop(fake):
    board = board_of(fake)
    done = []
    assert tick(Do("once", board, done.append)) is Status.SUCCESS
    assert done == [board]
    board.begin()
    board.drive((0.1, 0.0, 0.0))
    board.end()
    assert tick(Stop(board)) is Status.SUCCESS
    assert fake.commands[-1].cancel


def test_wait_goes_by_the_robots_clock(fake):
    wait = Wait(board_of(fake), 2.0)
    assert [tick(wait, time=t) for t in (5.0, 6.9)] == [Status.RUNNING] * 2
    assert tick(wait, time=7.0) is Status.SUCCESS


def wander(board, ways):
    drawn = iter(ways)
    return Wander("walk", board, lambda _: next(drawn), speed=0.5, lookahead=0.8, threshold=0.05, tries=3)


def test_wander_keeps_its_direction_until_a_collision_is_predicted(fake):
    board = board_of(fake)
    walk = wander(board, [0.0, 0.1, math.pi])
    empty, full = CollisionMap(fake.spec), grid_with(fake.spec, (0.45, 0.0))
    for _ in range(3):
        assert tick(walk, collision_map=empty) is Status.RUNNING
        assert fake.commands[-1].velocity_body == pytest.approx((0.5, 0.0, 0.0))
    assert tick(walk, collision_map=full) is Status.RUNNING
    assert fake.commands[-1].velocity_body == pytest.approx((-0.5, 0.0, 0.0))


@pytest.mark.parametrize(("margin", "turned"), [(0.0, False), (0.12, True)])
def test_wander_with_a_margin_minds_what_is_beside_it_and_ahead(fake, margin, turned):
    drawn = iter([0.0, math.pi])
    walk = Wander(
        "walk",
        board_of(fake),
        lambda _: next(drawn),
        speed=0.5,
        lookahead=0.8,
        threshold=0.05,
        margin=margin,
    )
    # The hull of a robot that comes from the right.
    grid = grid_with(fake.spec, (0.12, -0.2), (0.16, -0.2), (0.2, -0.22))
    assert tick(walk, collision_map=grid) is Status.RUNNING
    assert (fake.commands[-1].velocity_body[0] < 0) is turned


def test_wander_fails_where_nothing_it_draws_is_free(fake):
    walk = wander(board_of(fake), [0.0, 0.1, -0.1, math.pi])
    assert tick(walk, collision_map=grid_with(fake.spec, (0.45, 0.0))) is Status.FAILURE
    assert tick(walk) is Status.RUNNING


def test_wander_stays_clear_of_walls(arena):
    world, swarm = arena("dots", "epuck2")
    for robot in swarm.robots:
        # An e-puck2 is slower, and sees less far.
        speed = 0.25 * robot.spec.limits.speed
        rng = np.random.default_rng(1)
        walk = Wander(
            "walk",
            board_of(robot),
            lambda _, rng=rng: rng.uniform(-math.pi, math.pi),
            speed=speed,
            lookahead=0.4 / 0.5,
            threshold=0.05,
        )
        world.teleport(robot.name, (0.0, 0.0, 0.0))
        least = math.inf
        start = world.truth()[:, :2].copy()
        for _ in range(300):
            if tick(walk) is not Status.RUNNING:
                pass
            swarm.run(0.1)
            row = world.truth()[list(world.names).index(robot.name)]
            least = min(least, 2.5 - float(np.abs(row[:2]).max()) - robot.spec.body.bounding_radius)
        assert least > 0.02
        assert np.hypot(*(world.truth()[:, :2] - start).T).max() > 0.2
        world.teleport(robot.name, (2.0, 2.0, 0.0))


def test_escape_creeps_where_the_map_is_emptiest_for_a_short_way(arena):
    world, swarm = arena()
    world.teleport("dots1", (2.36, 2.36, 0.7))
    swarm.run(1.0)
    escape = Escape(board_of(swarm.robots[0]), speed=0.1, distance=0.2)
    assert drive(escape, swarm, 5.0) is Status.SUCCESS
    x, y, _ = world.truth()[0, :3]
    way = np.array((2.36 - x, 2.36 - y))
    assert np.hypot(*way) == pytest.approx(0.2, abs=0.03)
    assert way.min() > 0.05


def test_go_to_arrives_and_follows_a_goal_that_moves(arena):
    world, swarm = arena()
    goal = [0.5, 0.0, 0.0]
    go = GoTo("go", board_of(swarm.robots[0]), lambda _: tuple(goal), speed=0.5, threshold=0.05)
    for _ in range(5):
        tick(go)
        swarm.run(0.1)
    goal[:] = (0.5, 0.4, 1.0)
    assert drive(go, swarm, 8.0) is Status.SUCCESS
    assert world.truth()[0, :3] == pytest.approx(goal, abs=0.03)


def test_go_to_turns_and_drives_robots_with_two_wheels(arena):
    world, swarm = arena("pioneer3dx")
    go = GoTo("go", board_of(swarm.robots[0]), lambda _: (0.3, -0.6, 1.0), speed=0.3)
    assert drive(go, swarm, 20.0) is Status.SUCCESS
    assert world.truth()[0, :2] == pytest.approx((0.3, -0.6), abs=0.05)


def test_go_to_fails_where_something_is_in_the_way_or_there_is_no_goal(fake):
    board = board_of(fake)
    go = GoTo("go", board, lambda _: (1.0, 0.0, 0.0), speed=0.5, threshold=0.05)
    assert tick(go, collision_map=grid_with(fake.spec, (0.45, 0.0))) is Status.FAILURE
    assert tick(GoTo("nowhere", board, lambda _: None, speed=0.5)) is Status.FAILURE


def test_what_lies_beyond_the_goal_is_not_in_the_way(fake):
    board = board_of(fake)
    tick(Stop(board), collision_map=grid_with(fake.spec, (0.6, 0.0)))
    assert way_likelihood(board, (1.0, 0.0, 0.0), 0.5) > 0.05
    assert way_likelihood(board, (0.3, 0.0, 0.0), 0.5) < 0.01
    assert way_likelihood(board, (0.0, 0.0, 1.0), 0.5) == 0.0


def test_lift_and_lower(fake):
    board = board_of(fake)
    lift, lower = Lift(board), Lower(board)
    assert tick(lift) is Status.RUNNING
    assert (fake.commands[-1].lift, fake.commands[-1].carrying) == (True, True)
    assert tick(lift, lifter_height=0.18) is Status.RUNNING
    assert (fake.commands[-1].lift, fake.commands[-1].carrying) == (True, None)
    assert tick(lift, lifter_height=0.197) is Status.SUCCESS
    assert tick(lower) is Status.RUNNING
    assert (fake.commands[-1].lift, fake.commands[-1].carrying) == (False, None)
    assert board.carrying
    assert tick(lower, lifter_height=0.145) is Status.SUCCESS
    assert fake.commands[-1].carrying is False
    assert not board.carrying
