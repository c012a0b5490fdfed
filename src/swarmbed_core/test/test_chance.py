"""Named streams of chance: their numbers stay what they are, and nobody shifts anybody."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.chance import PartStream, Stream, part_number, stream, within


def first(source):
    return np.random.default_rng(source).integers(2**32)


def test_the_numbers_stay_what_they_are():
    # Another number would change every run there is.
    assert {item.name: int(item) for item in Stream} == {
        "SCENE": 0,
        "WORLD": 1,
        "PROGRAMS": 2,
        "GENERATORS": 3,
    }
    assert {item.name: int(item) for item in PartStream} == {
        "WHEELS": 0,
        "IMU": 1,
        "COMPASS": 2,
        "CAMERAS": 3,
        "RINGS": 4,
        "WATCHED_IMAGES": 1000,
        "WATCHED_MARKERS": 1001,
        "POSITION": 1002,
        "GROUND": 1003,
        "LIGHT": 1004,
        "SPOTS": 1005,
    }


def test_a_numbered_stream_is_what_spawning_gives():
    spawned = np.random.SeedSequence(7, spawn_key=(2,)).spawn(3)
    assert [first(stream(7, Stream.PROGRAMS, k)) for k in range(3)] == [first(child) for child in spawned]
    assert first(stream(7, Stream.WORLD)) == first(np.random.SeedSequence(7, spawn_key=(1,)))


def test_streams_within_a_stream_do_not_depend_on_which_were_taken_before():
    world = stream(7, Stream.WORLD)
    before = first(within(world, 3, PartStream.RINGS))
    world.spawn(5)
    assert first(within(world, 3, PartStream.RINGS)) == before
    assert first(within(world, 3, PartStream.RINGS + 1)) != before


def test_parts_without_a_number_have_a_stream_by_their_name():
    # This too would change runs.
    assert part_number("humidity") == 1_000_000 + 1778153410
    assert first(within(stream(7, Stream.WORLD), 3, part_number("humidity"))) != first(
        within(stream(7, Stream.WORLD), 3, part_number("pressure"))
    )


@settings(derandomize=True, deadline=None)
@given(st.text())
def test_no_name_has_the_stream_of_a_ring_or_camera(name):
    rings, cameras = range(PartStream.RINGS, 1000), range(PartStream.SPOTS, PartStream.SPOTS + 1000)
    assert part_number(name) not in {*PartStream, *rings, *cameras}
