import math

import numpy as np
import pytest
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Selector, Sequence
from swarmbed_behaviours.toolkit import Board, TreeController
from swarmbed_core.controller import NoParameters
from swarmbed_core.device import Zone
from swarmbed_core.geometry import wrap
from swarmbed_core.markers import SideSight
from swarmbed_core.motion import Outcome
from swarmbed_core.robot import Command, MotionStatus
from swarmbed_core.trajectory import Path, Waypoint


def board_of(robot):
    return Board(robot, np.random.default_rng(0))


def tick(board, **senses):
    """One tick in which nothing is wished, at new senses."""
    board.robot.set(**senses)
    board.begin()
    board.end()
    return board.robot.commands[-1]


def test_a_tick_sends_one_command_with_all_wishes(fake):
    board = board_of(fake)
    board.begin()
    board.drive((0.1, 0.0, 0.0))
    board.lift(True)
    board.say("ble", b"a")
    board.say("ble", b"b")
    board.show([1, 2])
    board.carry(True)
    board.end()
    assert fake.commands == [
        Command(velocity_body=(0.1, 0.0, 0.0), lift=True, send={"ble": b"b"}, leds=[1, 2], carrying=True)
    ]
    assert board.carrying


def test_the_last_wish_for_motion_wins(fake):
    board = board_of(fake)
    board.begin()
    board.go_to((1.0, 0.0, 0.0), 0.3)
    board.drive((0.1, 0.0, 0.0))
    board.end()
    assert fake.commands[-1].path is None
    assert fake.commands[-1].velocity_body == (0.1, 0.0, 0.0)
    board.begin()
    board.drive((0.1, 0.0, 0.0))
    board.stop()
    board.end()
    assert fake.commands[-1].velocity_body is None
    assert fake.commands[-1].cancel


def test_without_a_wish_the_robot_brakes_once(fake):
    board = board_of(fake)
    board.begin()
    board.drive((0.1, 0.0, 0.0))
    board.end()
    assert tick(board) == Command(cancel=True)
    assert tick(board) == Command()


def test_a_path_is_sent_once_and_anew_when_its_goal_has_moved(fake):
    board = board_of(fake)
    paths = 0
    for k, goal in enumerate([(1.0, 0.0, 0.0), (1.002, 0.0, 0.0), (1.02, 0.0, 0.0), (1.02, 0.0, 0.2)]):
        board.begin()
        assert board.go_to(goal, 0.3) is Status.RUNNING
        board.end()
        sent = fake.commands[-1].path
        assert (sent is not None) == (k != 1)
        paths += sent is not None
        fake.set(motion=MotionStatus(path=paths, outcome=Outcome.RUNNING))
    assert sent.waypoints[0].pose == (1.02, 0.0, 0.2)
    assert sent.max_speed == 0.3


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.RUNNING, Status.RUNNING),
        (Outcome.SUCCEEDED, Status.SUCCESS),
        (Outcome.FAILED, Status.FAILURE),
        (Outcome.CANCELLED, Status.FAILURE),
    ],
)
def test_go_to_tells_what_became_of_the_path(fake, outcome, status):
    board = board_of(fake)
    board.begin()
    board.go_to((1.0, 0.0, 0.0), 0.3)
    board.end()
    fake.set(motion=MotionStatus(path=1, outcome=outcome), time=0.1)
    board.begin()
    assert board.go_to((1.0, 0.0, 0.0), 0.3) is status


def test_a_path_that_is_never_begun_was_refused(fake):
    board = board_of(fake)
    board.begin()
    board.go_to((1.0, 0.0, 0.0), 0.3)
    board.end()
    fake.set(time=0.2)
    board.begin()
    assert board.go_to((1.0, 0.0, 0.0), 0.3) is Status.RUNNING
    fake.set(time=1.0)
    board.begin()
    assert board.go_to((1.0, 0.0, 0.0), 0.3) is Status.FAILURE
    board.end()
    # The robot must not go on with whatever path it had before, and the next wish is a new attempt.
    assert fake.commands[-1].cancel
    board.begin()
    assert board.go_to((1.0, 0.0, 0.0), 0.3) is Status.RUNNING
    board.end()
    assert fake.commands[-1].path is not None


def test_a_path_of_ones_own_is_followed(fake):
    board = board_of(fake)
    path = Path((Waypoint((1.0, 0.0, 0.0)),), "map")
    for _ in range(3):
        board.begin()
        board.follow(path)
        board.end()
    assert [command.path for command in fake.commands] == [path, None, None]


def test_another_wish_in_between_ends_a_path(fake):
    board = board_of(fake)
    for wish in ("go", "drive", "go"):
        board.begin()
        if wish == "go":
            board.go_to((1.0, 0.0, 0.0), 0.3)
        else:
            board.drive((0.0, 0.1, 0.0))
        board.end()
    assert [command.path is not None for command in fake.commands] == [True, False, True]


def test_directions_are_of_the_arena(fake):
    fake.set(heading=math.pi / 2, pose_odom=np.array([0.0, 0.0, 0.3]))
    board = board_of(fake)
    board.begin()
    assert board.to_body(math.pi) == pytest.approx(math.pi / 2)
    assert board.from_odom(0.3) == pytest.approx(math.pi / 2)
    assert board.along_arena(math.cos(0.3), math.sin(0.3)) == pytest.approx((0.0, 1.0))
    fake.set(heading=None)
    board.begin()
    assert board.heading == 0.3


def test_holonomic_robots_set_off_at_once_and_others_turn_first(fake, fake_of):
    board = board_of(fake)
    board.begin()
    board.drive_towards(math.pi / 2, 0.5, face=0.4)
    board.end()
    vx, vy, omega = fake.commands[-1].velocity_body
    assert (vx, vy) == pytest.approx((0.0, 0.5))
    assert omega > 0
    other = fake_of("epuck2")
    board = board_of(other)
    board.begin()
    board.drive_towards(math.pi / 2, 0.1)
    board.end()
    vx, vy, omega = other.commands[-1].velocity_body
    assert vx == pytest.approx(0.0, abs=1e-6)
    assert vy == 0.0
    assert 0 < omega <= other.spec.limits.yaw_rate
    board.begin()
    board.drive_towards(0.0, 0.1)
    board.end()
    assert other.commands[-1].velocity_body == (0.1, 0.0, 0.0)


def test_the_border_of_the_drop_zone_is_remembered(fake):
    # Along odom's y lies the arena's x.
    fake.set(heading=math.pi / 2, pose_odom=np.array([0.0, 0.0, math.pi]))
    board = board_of(fake)
    assert board.past_drop_border((5.0, 0.0)) is None
    tick(board, zone=Zone.DROP, heading=math.pi / 2, pose_odom=np.array([0.0, 1.0, math.pi]))
    tick(board, zone=Zone.NEITHER, heading=math.pi / 2, pose_odom=np.array([0.0, 2.0, math.pi]))
    tick(board, zone=Zone.SEARCH, heading=math.pi / 2, pose_odom=np.array([0.0, 3.0, math.pi]))
    assert board.past_drop_border((7.0, 2.5)) == pytest.approx(0.5)
    assert board.past_drop_border((7.0, 1.5)) == pytest.approx(-0.5)


def test_places_far_away_do_not_jitter_with_the_compass(fake):
    board = board_of(fake)
    rng = np.random.default_rng(2)
    seen = []
    for _ in range(300):
        tick(board, heading=float(wrap(math.pi + 0.01 * rng.standard_normal())))
        seen.append(board.along_arena(4.0, 0.0))
    assert np.std([y for _, y in seen[50:]]) < 0.015
    assert seen[-1] == pytest.approx((-4.0, 0.0), abs=0.04)


def sight(marker, stamp, x=1.0):
    pose = np.array([x, 0.0, math.pi])
    return SideSight(marker, stamp, "cam0", pose, np.eye(3) * 1e-4, True, 0.0, 1, pose)


def test_what_is_seen_of_carriers_is_kept_for_a_while(fake):
    board = board_of(fake)
    tick(board, time=1.0, carrier=sight(101, 0.9))
    assert board.carrier.id == 101
    tick(board, time=1.1, carrier=sight(101, 0.9))
    assert board.carrier.sights == 1
    tick(board, time=1.2, carrier=sight(101, 1.1))
    assert board.carrier.sights == 2
    # Somewhere else, or not seen: then it is not where it was.
    tick(board, time=1.3, carrier=sight(101, 1.2, x=2.0))
    assert board.carrier is None
    tick(board, time=2.0, carrier=None)
    assert board.carrier is None
    assert list(board.carriers) == [101]
    tick(board, time=60.0)
    assert not board.carriers


def test_carriers_are_given_up_for_a_while(fake):
    board = board_of(fake)
    board.give_up(100, 5.0)
    assert board.is_given_up(100)
    assert not board.is_given_up(101)
    tick(board, time=5.0)
    assert not board.is_given_up(100)


def test_the_platform_is_up_or_down_or_neither(fake, fake_of):
    board = board_of(fake)
    assert (board.platform_up, board.platform_down) == (False, True)
    tick(board, lifter_height=0.17)
    assert (board.platform_up, board.platform_down) == (False, False)
    tick(board, lifter_height=0.197)
    assert (board.platform_up, board.platform_down) == (True, False)
    assert board_of(fake_of("epuck2")).platform_down


def test_likelihood_looks_at_the_way_and_not_only_at_its_end(arena):
    world, swarm = arena()
    world.teleport("dots1", (2.1, 0.0, 0.0))
    swarm.run(1.0)
    board = board_of(swarm.robots[0])
    board.begin()
    assert board.likelihood(0.0, 0.5, 1.6) > 0.2
    assert board.likelihood(math.pi, 0.5, 1.0) == 0.0


class Idle(Behaviour):
    """Runs for ever."""

    def update(self):
        return Status.RUNNING


class TwoThings(TreeController):
    def make_tree(self):
        first = Sequence("first", memory=True, children=[Idle("a")])
        return Selector("root", memory=True, children=[first, Idle("second")])


def test_a_controller_senses_and_commands_once_a_tick_and_says_what_it_does(fake):
    controller = TwoThings(fake, NoParameters(), np.random.default_rng(0))
    controller.tick()
    assert len(fake.commands) == 1
    assert controller.doing == "first"
    assert controller.root.status is Status.RUNNING


class NoTree(TreeController):
    def make_tree(self):
        """Forget to return it."""


def test_a_controller_without_a_tree_is_told_so(fake):
    with pytest.raises(TypeError, match=r"NoTree\.make_tree returned None: expected the root of a tree"):
        NoTree(fake, NoParameters(), np.random.default_rng(0))


class Notes(TreeController):
    """Notes in which order things happen."""

    def make_tree(self):
        self.notes = []
        return Noted(self.notes)

    def before_tree(self):
        # What was sensed for this tick is there already.
        self.notes.append(("before", self.board.time, self.root.status))

    def after_tree(self):
        self.notes.append(("after", self.board.time, self.root.status))
        self.board.say("ble", b"told")


class Noted(Behaviour):
    """Notes when it is ticked."""

    def __init__(self, notes):
        super().__init__("noted")
        self.notes = notes

    def update(self):
        self.notes.append(("tree",))
        return Status.SUCCESS


def test_what_comes_before_and_after_the_tree_is_between_senses_and_command(fake):
    controller = Notes(fake, NoParameters(), np.random.default_rng(0))
    fake.set(time=0.1)
    controller.tick()
    assert controller.notes == [
        ("before", 0.1, Status.INVALID),
        ("tree",),
        ("after", 0.1, Status.SUCCESS),
    ]
    [command] = fake.commands
    assert command.send == {"ble": b"told"}


def test_a_manager_may_tick_the_tree_in_its_place(fake):
    controller = Notes(fake, NoParameters(), np.random.default_rng(0))

    def manager():
        controller.notes.append(("manager",))
        controller.root.tick_once()

    controller.tick_root = manager
    controller.tick()
    assert [note[0] for note in controller.notes] == ["before", "manager", "tree", "after"]
    assert len(fake.commands) == 1
    controller.notes.clear()
    controller.tick_root = None
    controller.tick()
    assert [note[0] for note in controller.notes] == ["before", "tree", "after"]
    # It is that of one controller, not of all.
    assert Notes.tick_root is None
