"""The engines and worlds of this package, and robots in them, keep the contracts."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.contract import RobotContract
from swarmbed_core.geometry import rotate
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.world_contract import TaskWorldContract, scene_of
from swarmbed_sim.contract import PhysicsContract
from swarmbed_sim.sim_world import SimWorld

from swarmbed_sim import contract, mujoco_world, planar_world


@pytest.fixture
def closing():
    """Return a function that closes what it is given after the test."""
    made = []

    def close_later(thing):
        made.append(thing)
        return thing

    yield close_later
    for thing in made:
        thing.close()


class TestPlanarPhysics(PhysicsContract):
    """Bodies in the plane."""

    DEVIATIONS = frozenset({contract.DISCS, contract.TALL})

    @pytest.fixture
    def engine(self, closing):
        return lambda scene: closing(planar_world.PlanarPhysics(scene))


class TestMujocoPhysics(PhysicsContract):
    """Bodies in three dimensions."""

    DEVIATIONS = frozenset({contract.TALL})

    @pytest.fixture
    def engine(self, closing):
        return lambda scene: closing(mujoco_world.MujocoPhysics(scene))


def worlds_of(make, closing):
    """Return what makes the worlds of a plugin."""
    return lambda scene, seed=7: closing(make(scene, np.random.SeedSequence(seed)))


class TestPlanarWorld(TaskWorldContract):
    """The world planar."""

    @pytest.fixture
    def make_world(self, closing):
        return worlds_of(planar_world.make, closing)


class TestMujocoWorld(TaskWorldContract):
    """The world mujoco."""

    @pytest.fixture
    def make_world(self, closing):
        return worlds_of(mujoco_world.make, closing)


@dataclass
class SimRig:
    """One robot on an empty floor."""

    swarm: LocalSwarm

    @property
    def robot(self) -> LocalRobot:
        return self.swarm.robots[0]

    def advance(self, seconds: float) -> None:
        self.swarm.run(seconds)

    def truth(self):
        return self.swarm.world.truth()[0]


def rig_of(make, kind, closing):
    scene = scene_of([(kind, (0.0, 0.0, 0.0))], arena="empty", noise=True)
    return SimRig(LocalSwarm(closing(make(scene, np.random.SeedSequence(11)))))


class TestPlanarRobot(RobotContract):
    """In the plane."""

    @pytest.fixture(params=["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
    def rig(self, request, closing):
        return rig_of(planar_world.make, request.param, closing)


class TestMujocoRobot(RobotContract):
    """In three dimensions: a round robot that goes anywhere, and a box on two wheels."""

    @pytest.fixture(params=["dots", "pioneer3dx"])
    def rig(self, request, closing):
        return rig_of(mujoco_world.make, request.param, closing)


class Broken(planar_world.PlanarPhysics):
    """An engine that breaks the contract in one way."""


class Backwards(Broken):
    """Adds robots at the front."""

    def add_robot(self, placement):
        super().add_robot(placement)
        self.poses[:] = np.roll(self.poses, 1, axis=0)


class Copies(Broken):
    """New arrays at each step."""

    def advance(self, *asked):
        super().advance(*asked)
        self.poses = self.poses.copy()


class InMap(Broken):
    """Velocities along the axes of the map."""

    def advance(self, *asked):
        super().advance(*asked)
        for pose, twist in zip(self.poses, self.twists, strict=True):
            twist[:2] = rotate(twist[:2], pose[2])


class Unwrapped(Broken):
    """Yaw without end."""

    def advance(self, *asked):
        super().advance(*asked)
        self.poses[:, 2] += 2 * np.pi * (self.poses[:, 2] < 0)


class Talkative(Broken):
    """Tells contacts twice, carriers and walls first."""

    def contacts(self):
        return [(other, one, speed) for one, other, speed in super().contacts()]


class Deaf(Broken):
    """Tells of no contacts."""

    def contacts(self):
        return []


class Ghosts(Broken):
    """Bodies that pass through walls."""

    def __init__(self, scene):
        super().__init__(dataclasses.replace(scene, obstacles=(), arena=Arena.load("empty")))
        self.segments, self.pillars = scene.segments(), scene.pillars()


class Weak(Broken):
    """Motors with half of what they can."""

    def __init__(self, scene):
        super().__init__(scene, acceleration="limited")


class Sticky(Broken):
    """Boxes that stay."""

    def remove_box(self, name):
        walls = self.segments
        super().remove_box(name)
        self.segments = walls


class Rolls(Broken):
    """A robot that a hand moves goes on moving."""

    def move_robot(self, row, pose):
        twist = self._state[row, 3:].copy()
        super().move_robot(row, pose)
        self._state[row, 3:] = twist
        self._place_all()


class Holds(Broken):
    """What is lifted stays up."""

    def remove_robot(self, row):
        super().remove_robot(row)
        self.carrier_lifts[:] = 0.02


class Random(Broken):
    """A little of chance."""

    def advance(self, *asked):
        super().advance(*asked)
        self.twists += np.random.default_rng().normal(0.0, 1e-9, self.twists.shape)


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Backwards, "test_robots_come_and_go"),
        (Copies, "test_the_arrays_stay_the_same_objects"),
        (InMap, "test_frames_are_those_of_rep_103"),
        (InMap, "test_twists_are_the_rates_of_poses"),
        (Unwrapped, "test_yaw_stays_within_half_a_turn"),
        (Talkative, "test_contacts_are_named_and_told_once_with_their_speed"),
        (Deaf, "test_a_contact_is_new_after_half_a_second_or_if_it_is_harder"),
        (Deaf, "test_one_that_comes_meets_the_others"),
        (Ghosts, "test_bodies_do_not_overlap"),
        (Ghosts, "test_a_robot_at_a_wall_pushes_with_all_it_has"),
        (Weak, "test_drives_accelerate_as_their_motors_can_and_no_more"),
        (Sticky, "test_boxes_come_stop_robots_and_go"),
        (Rolls, "test_a_hand_puts_a_robot_elsewhere_at_rest"),
        (Holds, "test_a_lifted_carrier_falls_when_its_robot_goes"),
        (Random, "test_runs_repeat_to_the_bit"),
    ],
)
def test_a_broken_engine_is_found(kind, test):
    keeper = TestPlanarPhysics()
    with pytest.raises((AssertionError, ValueError)):
        getattr(keeper, test)(kind)


@pytest.mark.parametrize(
    ("deviation", "test"),
    [
        (contract.DISCS, "test_a_box_stops_with_its_front"),
        (contract.TALL, "test_a_carried_tray_passes_over_what_is_low"),
    ],
)
def test_an_exception_that_is_concealed_is_found(deviation, test):
    assert deviation in contract.EXCEPTIONS
    keeper = TestPlanarPhysics()
    keeper.DEVIATIONS = frozenset()
    with pytest.raises(AssertionError):
        getattr(keeper, test)(planar_world.PlanarPhysics)


def test_an_exception_without_a_reason_is_found():
    keeper = TestMujocoPhysics()
    keeper.DEVIATIONS = frozenset({contract.DISCS})
    with pytest.raises(AssertionError):
        keeper.test_a_box_stops_with_its_front(mujoco_world.MujocoPhysics)


class Odd(SimWorld):
    """A world that breaks the contract in one way."""

    def __init__(self, scene, seed=7):
        super().__init__(scene, planar_world.PlanarPhysics(scene), np.random.SeedSequence(seed))


class Undead(Odd):
    """Only the motors die."""

    def kill(self, name):
        self._row(name)
        self.device(name).motors.enable(False)


class Noticed(Odd):
    """A hand turns the wheels."""

    def teleport(self, name, pose):
        super().teleport(name, pose)
        if name in self._motors:
            motors = self._motors[name]
            motors.bodies.travel[motors.slot] += 0.5


class Careless(Odd):
    """A hand that looks for nothing."""

    def teleport(self, name, pose):
        carrier = self._carrier_rows.get(name)
        if carrier is None:
            self.physics.move_robot(self._row(name), pose)
        else:
            self.physics.move_carrier(carrier, pose)


class Gripping(Odd):
    """Wheels that never slip."""

    def set_slip(self, name, share):
        if not 0 <= share < 1:
            super().set_slip(name, share)


class Straight(Odd):
    """Robots that never veer."""

    def set_drift(self, name, stretch, veer):
        super().set_drift(name, stretch, veer)
        super().set_drift(name, stretch, 0.0)


class Loud(Odd):
    """Radios that lose nothing."""

    def set_radio_loss(self, share):
        super().set_radio_loss(share)
        super().set_radio_loss(0.0)


class Lasting(Odd):
    """Who goes is on the list for ever."""

    names = property(lambda self: (*super().names, *self.gone))
    gone = ()

    def remove_robot(self, name):
        super().remove_robot(name)
        self.gone = (*self.gone, name)


class OneReader(Odd):
    """Contacts go to whoever asks first."""

    def watch_contacts(self):
        if not hasattr(self, "reader"):
            self.reader = super().watch_contacts()
        return self.reader


class Invisible(Odd):
    """Boxes that nobody sees."""

    def add_obstacle(self, name, pose, size):
        walls = self.physics.segments
        super().add_obstacle(name, pose, size)
        self.physics.segments = walls


class Cheap(Odd):
    """Motors that cost half."""

    def energy_wh(self):
        return 0.5 * super().energy_wh()


class Living(Odd):
    """The caller's carriers change with the world's."""

    def carriers(self):
        return dataclasses.replace(super().carriers(), carried_by=self.physics.carried_by)


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Undead, "test_the_dead_do_nothing_but_are_there"),
        (Noticed, "test_a_hand_is_not_noticed_by_wheels_and_gyro"),
        (Careless, "test_a_hand_puts_nothing_onto_something_else"),
        (Gripping, "test_slip_shortens_the_way_and_not_the_count"),
        (Straight, "test_drift_stretches_the_way"),
        (Loud, "test_radios_lose_what_they_are_told_to"),
        (Lasting, "test_robots_come_and_go"),
        (OneReader, "test_contacts_have_times_and_names_and_go_to_all_readers"),
        (Invisible, "test_obstacles_come_and_go"),
        (Cheap, "test_energy_is_what_the_power_model_says"),
        (Living, "test_a_lifter_lifts_what_is_above_it"),
    ],
)
def test_a_broken_world_is_found(kind, test):
    check = getattr(TaskWorldContract(), test)
    check(Odd)
    with pytest.raises(AssertionError):
        check(kind)
