"""Core's world keeps the contract of worlds, and the contract finds those that break it."""

import dataclasses

import numpy as np
import pytest
from swarmbed_core.geometry import rotate
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.world_contract import EXCEPTIONS, HEIGHTS, TaskWorldContract, WorldContract


def world_of(scene, seed=7, kind=MemoryWorld):
    placements = [Placement(item.name, item.spec, item.pose) for item in scene.robots]
    return kind(placements, scene.arena, seed=seed, noise=scene.scenario.noise)


class TestMemoryWorld(WorldContract):
    """A world without bodies."""

    @pytest.fixture
    def make_world(self):
        return world_of


class AddsUp(MemoryWorld):
    """Its clock collects rounding errors."""

    passed = 0.0

    @property
    def time(self):
        return self.passed

    def step(self):
        super().step()
        self.passed += self.timestep


class Sorted(MemoryWorld):
    @property
    def names(self):
        return sorted(super().names)


class Shared(MemoryWorld):
    """Everybody gets the same array."""

    def truth(self):
        if not hasattr(self, "rows"):
            self.rows = super().truth()
        self.rows[:] = super().truth()
        return self.rows


class Fresh(MemoryWorld):
    """New parts for each who asks."""

    def device(self, name):
        return dataclasses.replace(super().device(name))


class InMap(MemoryWorld):
    """Velocities along the axes of the map."""

    def truth(self):
        truth = super().truth()
        for row in truth:
            row[3:5] = rotate(row[3:5], row[2])
        return truth


class Clockwise(MemoryWorld):
    """Its yaw counts to the right."""

    def truth(self):
        return super().truth() * (1, 1, -1, 1, 1, -1)


class Twisted(MemoryWorld):
    """Sensors are numbered the other way round."""

    def device(self, name):
        device = super().device(name)
        for part in device.ranges.values():
            if not hasattr(part, "inner"):
                part.inner = part.read
                part.read = lambda part=part: _reversed(part.inner())
        return device


def _reversed(reading):
    return None if reading is None else reading._replace(distances=np.roll(reading.distances[::-1], 1))


class Moody(MemoryWorld):
    """Each run has noise of its own."""

    def __init__(self, *arguments, seed, **options):
        del seed
        super().__init__(*arguments, seed=np.random.SeedSequence().entropy, **options)


class Indifferent(MemoryWorld):
    """All seeds are the same."""

    def __init__(self, *arguments, seed, **options):
        del seed
        super().__init__(*arguments, seed=1, **options)


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (AddsUp, "test_time_is_whole_steps"),
        (Sorted, "test_names_are_in_the_scene_s_order"),
        (Shared, "test_truth_is_the_caller_s"),
        (Fresh, "test_a_device_is_made_once_and_for_known_names_only"),
        (InMap, "test_truth_and_senses_have_one_frame"),
        (Clockwise, "test_truth_and_senses_have_one_frame"),
        (Twisted, "test_sensors_of_a_ring_look_where_they_are_mounted"),
        (Moody, "test_a_seed_repeats_a_run_to_the_bit"),
        (Indifferent, "test_a_seed_repeats_a_run_to_the_bit"),
    ],
)
def test_a_broken_world_is_found(kind, test):
    check = getattr(WorldContract(), test)
    check(world_of)
    with pytest.raises(AssertionError):
        check(lambda scene, seed=7: world_of(scene, seed, kind))


def test_exceptions_have_reasons():
    assert set(EXCEPTIONS) == {HEIGHTS}
    assert not TaskWorldContract.DEVIATIONS
    assert all(len(reason) > 40 for reason in EXCEPTIONS.values())
