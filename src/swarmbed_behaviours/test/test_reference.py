import math
from dataclasses import replace

import numpy as np
import pytest
from py_trees.common import Status
from swarmbed_behaviours.reference import Reference
from swarmbed_core.controller import find_controller
from swarmbed_core.device import Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import between
from swarmbed_core.heading import zone_of
from swarmbed_core.local import LocalSwarm
from swarmbed_core.plugins import WORLDS, find_plugin, known
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene


def reference(robot, seed=0, **parameters):
    found, checked = find_controller("reference", parameters, "test")
    assert found is Reference
    return found(robot, checked, np.random.default_rng(seed))


def test_a_carrier_is_found_lifted_brought_and_left(carrier_arena):
    world, swarm, eyes = carrier_arena((0.3, 0.2, 1.0), (-0.8, 0.3, 0.4))
    controller = reference(swarm.robots[0], sigma_outside=0.2, sigma_search=0.6)
    done, lifted_at, least = [], None, math.inf
    for _ in range(900):
        controller.tick()
        if not done or done[-1] != controller.doing:
            done.append(controller.doing)
        robot = world.truth()[0, :3]
        height = world.device("dots1").lifter.read().height
        # What is on the platform goes with the robot, and is hidden from its upward camera.
        if height > 0.175:
            if lifted_at is None:
                lifted_at = between(robot, eyes.pose)
            c, s = math.cos(robot[2]), math.sin(robot[2])
            dx, dy, turn = lifted_at
            eyes.pose = np.array([robot[0] + c * dx - s * dy, robot[1] + s * dx + c * dy, robot[2] + turn])
        else:
            least = min(least, eyes.clearance())
        swarm.run(0.1)
        if done[-3:] == ["pick up", "take to drop zone", "explore"]:
            break
    assert done[-3:] == ["pick up", "take to drop zone", "explore"]
    assert least > 0.003
    assert eyes.pose[0] > 1.25
    assert not controller.board.carrying
    # Out from under it, and on the side of the search zone, if the walls leave that.
    assert eyes.clearance() > 0.02
    # From here on the carrier is left alone.
    brought = eyes.pose.copy()
    for _ in range(200):
        controller.tick()
        swarm.run(0.1)
        assert controller.doing == "explore"
    assert eyes.pose == pytest.approx(brought)


def run(controller, fake, seconds, **senses):
    """Tick with the same senses."""
    fake.set(**senses)
    commands = []
    for _ in range(round(seconds * 10)):
        fake.set(time=fake.senses.time + 0.1)
        controller.tick()
        commands.append(fake.commands[-1])
    return commands


def directions(controller, fake, zone, count=3000):
    """The directions that exploring draws in a zone."""
    fake.set(zone=zone)
    controller.board.begin()
    return np.array([controller._draw_search(controller.board) for _ in range(count)])


def test_directions_are_those_of_equation_1(fake):
    controller = reference(fake)
    # Wrapped round, the equation gives 0.51 towards -x in the search zone, where the text says about 0.6.
    for zone, sigma, share in ((Zone.SEARCH, 3.0, 0.51), (Zone.NEITHER, 1.0, 0.89), (Zone.DROP, 1.0, 0.89)):
        drawn = directions(controller, fake, zone)
        assert drawn.mean() == pytest.approx(math.pi, abs=0.2)
        assert drawn.std() == pytest.approx(sigma, rel=0.05)
        assert (np.cos(drawn) < 0).mean() == pytest.approx(share, abs=0.03)
    home = np.array([controller._draw_drop(controller.board) for _ in range(3000)])
    assert home.mean() == pytest.approx(0.0, abs=0.1)
    assert (np.cos(home) > 0).mean() > 0.85


def test_exploring_is_at_half_a_metre_a_second_in_one_direction(fake):
    controller = reference(fake)
    commands = run(controller, fake, 3.0)
    assert controller.doing == "explore"
    ways = {tuple(round(v, 6) for v in command.velocity_body) for command in commands}
    assert len(ways) == 1
    assert math.hypot(*ways.pop()[:2]) == pytest.approx(0.5)


def test_carriers_beyond_the_border_of_the_drop_zone_are_not_wanted(fake):
    controller = reference(fake)
    board = controller.board
    east, west = np.array([2.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])
    # As long as it has never crossed the border it knows of none but in the search zone.
    assert not controller._wanted(board, west)
    fake.set(zone=Zone.SEARCH)
    board.begin()
    assert controller._wanted(board, east)
    for zone, x in ((Zone.DROP, 1.5), (Zone.NEITHER, 1.2)):
        fake.set(zone=zone, pose_odom=np.array([x, 0.5, 0.0]))
        board.begin()
    assert not controller._wanted(board, east)
    assert controller._wanted(board, west)


def test_a_carrier_is_put_down_in_the_drop_zone_only_and_where_nothing_is_near(fake, arena):
    controller = reference(fake, inset=0.15)
    board = controller.board
    for zone, x, expected in ((Zone.NEITHER, 1.2, False), (Zone.DROP, 1.3, False), (Zone.DROP, 1.5, True)):
        fake.set(zone=zone, pose_odom=np.array([x, 0.5, 0.0]))
        board.begin()
        assert controller._can_lower(board) is expected
    # Right at a wall.
    world, swarm = arena()
    world.teleport("dots1", (2.32, 0.0, 0.0))
    swarm.run(1.0)
    controller = reference(swarm.robots[0])
    controller.board.carry(True)
    controller.board.robot.act(controller.board.robot.sense() and _carrying())
    swarm.run(0.2)
    controller.board.begin()
    assert not controller._can_lower(controller.board)


def _carrying():
    from swarmbed_core.robot import Command

    return Command(carrying=True)


def test_a_robot_that_starts_with_its_platform_up_lowers_it_first(fake):
    controller = reference(fake)
    commands = run(controller, fake, 0.5, lifter_height=0.19)
    assert all(command.lift is False and command.velocity_body is None for command in commands)
    commands = run(controller, fake, 0.5, lifter_height=0.145)
    assert commands[-1].velocity_body is not None


def test_a_robot_that_does_not_get_on_with_its_carrier_puts_it_down(fake):
    controller = reference(fake, stuck_seconds=5.0)
    root = controller.root
    take = root.children[2]
    controller.board.carry(True)
    # As if it had just been picked up.
    root.status, root.current_child = Status.RUNNING, take
    commands = run(controller, fake, 4.8, lifter_height=0.197)
    assert controller.doing == "take to drop zone"
    assert math.hypot(*commands[-1].velocity_body[:2]) == pytest.approx(0.3)
    commands = run(controller, fake, 1.0)
    assert controller.doing == "explore"
    assert commands[-1].lift is False
    assert commands[-1].velocity_body is None
    commands = run(controller, fake, 0.2, lifter_height=0.145)
    assert any(command.carrying is False for command in commands)


def test_a_robot_without_a_zone_sense_completes_the_task_by_its_pose():
    if "planar" not in known(WORLDS):
        pytest.skip("world 'planar' (package swarmbed_sim) is not installed")
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "one robot, one carrier",
            "arena": "dots_arena",
            "time_limit": 60,
            "robots": [{"kind": "dots", "localised": True, "place": {"poses": [(0.3, 0.0, math.pi)]}}],
            "carriers": [{"place": {"poses": [(-1.0, 0.0, 0.0)]}}],
            "controller": {"name": "reference"},
        }
    )
    scene = make_scene(scenario, 0)
    world = find_plugin(WORLDS, "planar")(scene, np.random.SeedSequence(0))
    with_zone = world.device
    world.device = lambda name: replace(with_zone(name), zone=None)
    swarm = LocalSwarm.of_scene(scene, world)
    controller = reference(swarm.robots[0])
    while world.time < scenario.time_limit:
        swarm.run(0.1)
        controller.tick()
        carriers = world.carriers()
        if carriers.carried_by[0] < 0 and zone_of(carriers.poses[0], scene.zones) is Zone.DROP:
            break
    assert zone_of(carriers.poses[0], scene.zones) is Zone.DROP
    assert carriers.carried_by[0] < 0


def test_two_runs_with_one_seed_are_the_same(arena):
    tracks = []
    for _ in range(2):
        world, swarm = arena("dots", "dots")
        controllers = [reference(robot, seed) for seed, robot in enumerate(swarm.robots)]
        for _ in range(100):
            for controller in controllers:
                controller.tick()
            swarm.run(0.1)
        tracks.append(world.truth())
    assert np.array_equal(*tracks)


def test_parameters_are_checked(fake):
    with pytest.raises(ConfigError, match="explore_speed"):
        reference(fake, explore_speed=-1)
    with pytest.raises(ConfigError, match="docking"):
        reference(fake, docking={"blocked": 2})
