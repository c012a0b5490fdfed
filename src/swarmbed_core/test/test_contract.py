"""The contract finds the robots that break it."""

import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.contract import RobotContract
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec

CONTRACT = RobotContract()


class Broken:
    """A rig whose robot is sound but for what a subclass breaks."""

    def __init__(self):
        placement = Placement("a", RobotSpec.load("dots"))
        self.swarm = LocalSwarm(MemoryWorld([placement], Arena.load("empty"), noise=False))
        self.robot = self
        self.inner = self.swarm.robots[0]
        self.name, self.spec = self.inner.name, self.inner.spec

    def sense(self):
        return self.inner.sense()

    def act(self, command):
        self.inner.act(command)

    def advance(self, seconds):
        self.swarm.run(seconds)

    def truth(self):
        return self.swarm.world.truth()[0]


class Deaf(Broken):
    def act(self, command):
        pass


class NeverTimesOut(Broken):
    def advance(self, seconds):
        for _ in range(round(seconds / 0.1)):
            if self.latest:
                self.inner.act(self.latest)
            super().advance(0.1)

    latest = None

    def act(self, command):
        self.latest = command
        super().act(command)


class Jumps(Broken):
    """Moves its body at once instead of accelerating."""

    def act(self, command):
        super().act(command)
        if command.velocity_body:
            self.inner.onboard.motion.controller._state[3:] = (1.0, 0.0, 0.0)


class SilentlyIgnores(Broken):
    """Does not count what it refuses."""

    def sense(self):
        senses = self.inner.sense()
        object.__setattr__(senses, "refused", {})
        return senses


class IgnoresCancel(Broken):
    def act(self, command):
        if not command.cancel:
            super().act(command)


class IgnoresNewPaths(Broken):
    followed = False

    def act(self, command):
        if command.path and self.followed:
            return
        self.followed = self.followed or command.path is not None
        super().act(command)


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (Deaf, "test_it_drives_forward"),
        (Deaf, "test_it_turns"),
        (Deaf, "test_only_holonomic_robots_move_sideways"),
        (Deaf, "test_it_follows_a_path"),
        (Deaf, "test_the_lifter_lifts"),
        (NeverTimesOut, "test_silence_stops_it"),
        (Jumps, "test_speed_and_acceleration_stay_within_limits"),
        (SilentlyIgnores, "test_impossible_numbers_are_refused"),
        (SilentlyIgnores, "test_what_it_lacks_is_refused"),
        (IgnoresCancel, "test_cancel_brakes"),
        (IgnoresNewPaths, "test_a_new_path_replaces_the_old"),
    ],
)
def test_a_broken_robot_is_found(broken, test):
    getattr(CONTRACT, test)(Broken())
    with pytest.raises(AssertionError):
        getattr(CONTRACT, test)(broken())


def test_a_command_says_nothing_by_default():
    rig = Broken()
    rig.act(Command())
    rig.advance(0.5)
    assert not rig.sense().refused
    assert rig.truth() == pytest.approx([0.0] * 6)
