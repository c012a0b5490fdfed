"""Senses and commands as messages: what goes in comes out, and what makes no sense is told."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from swarmbed_core.collision_map import CollisionMap
from swarmbed_core.control import Mode
from swarmbed_core.device import ImuReading, RadioPacket, Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.markers import SideSight, UndersideSight
from swarmbed_core.motion import Outcome
from swarmbed_core.power import BatteryState
from swarmbed_core.robot import Command, MotionStatus, Senses
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import MAX_WAYPOINTS, Path, Waypoint
from swarmbed_robot.wire import (
    MODES,
    WireError,
    command_from_msg,
    command_to_msg,
    heard_from_msg,
    path_of,
    radio_scan,
    senses_from_msg,
    senses_to_bytes,
    spec_from_text,
    spec_to_text,
    stamp_of,
)

from swarmbed_interfaces import msg

property_test = settings(deadline=None, max_examples=60, derandomize=True)
DOTS = RobotSpec.load("dots")
EPUCK = RobotSpec.load("epuck2")


def over_the_wire(sent):
    """Return a message as another process gets it."""
    return deserialize_message(serialize_message(sent), type(sent))


def sent_senses(senses, radios, run=0, frame="odom"):
    """Return senses as another process gets them."""
    made = senses_to_bytes(senses, radios, frame, (int(senses.time), 5), run)
    got = deserialize_message(made, msg.Senses)
    assert (got.header.stamp.sec, got.header.stamp.nanosec) == (int(senses.time), 5)
    return got


def same(one, other) -> bool:
    """Return whether two values are equal to the bit, NaN equal to NaN."""
    if isinstance(one, CollisionMap):
        return isinstance(other, CollisionMap) and all(map(same, one.content, other.content))
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other, equal_nan=True)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(value, other[key]) for key, value in one.items())
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one)
        )
    return type(one) is type(other) and one == other


numbers = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.floats(0.0, 1e9)
maybe = st.none() | numbers
# A string of C ends at its first zero.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
payloads = st.binary(max_size=40)
counts = st.integers(0, 2**32 - 1)


def arrays(*shape: int, elements=numbers):
    size = math.prod(shape)
    return st.lists(elements, min_size=size, max_size=size).map(lambda made: np.array(made).reshape(shape))


rows = st.integers(0, 30).flatmap(lambda n: arrays(n, 2))
sweeps = st.integers(0, 20).flatmap(lambda n: arrays(n, elements=st.floats(allow_infinity=True)))
sides = st.builds(
    SideSight,
    st.integers(-(2**31), 2**31 - 1),
    seconds,
    texts,
    arrays(3),
    arrays(3, 3),
    st.booleans(),
    numbers,
    counts,
    st.none() | arrays(3),
)
undersides = st.builds(UndersideSight, seconds, arrays(3), arrays(3, 3), counts, st.none() | arrays(3))
batteries = st.builds(
    BatteryState,
    seconds,
    numbers,
    numbers,
    numbers,
    numbers,
    st.booleans(),
    maybe,
    st.lists(numbers, max_size=4).map(tuple),
)
packets = st.builds(RadioPacket, seconds, texts, payloads, maybe, maybe)
statuses = st.builds(
    MotionStatus, st.sampled_from(Mode), counts, counts, numbers, numbers, st.sampled_from(Outcome)
)


def map_of(cells: list[float], legs: list[float]) -> CollisionMap:
    """Return a map with some cells that are not empty."""
    made = CollisionMap(DOTS)
    held, state, _ = made.content
    held = held.copy()
    held.reshape(-1)[: len(cells)] = cells
    return CollisionMap.holding(DOTS, held, state, legs)


maps = st.builds(map_of, st.lists(numbers, max_size=9), st.sampled_from([[], [0.1, -0.2, 0.3, 1e300]]))
dots_senses = st.builds(
    Senses,
    seconds,
    arrays(3),
    arrays(3),
    st.none() | arrays(3),
    st.none() | arrays(3, 3),
    maybe,
    st.sampled_from(Zone),
    st.dictionaries(texts, sweeps, max_size=3),
    rows,
    st.none() | maps,
    st.none() | sides,
    st.none() | undersides,
    maybe,
    st.none() | batteries,
    st.dictionaries(texts, st.lists(packets, max_size=3).map(tuple), max_size=3),
    statuses,
    st.dictionaries(texts, st.integers(0, 2**64 - 1), max_size=3),
    st.none() | arrays(3),
    st.none() | st.builds(ImuReading, seconds, st.tuples(*[numbers] * 3), st.tuples(*[numbers] * 3)),
    st.none() | arrays(2),
    st.none() | arrays(3),
    st.none() | arrays(8),
    st.dictionaries(texts, st.integers(0, 9).flatmap(lambda n: arrays(n, 5)), max_size=2),
)


@property_test
@given(dots_senses, counts)
def test_senses_come_back_to_the_bit(senses, run):
    got = sent_senses(senses, list(senses.heard), run)
    assert (got.run, got.header.frame_id) == (run, "odom")
    assert same(senses_from_msg(got, DOTS), senses)


@property_test
@given(st.lists(packets, max_size=5).map(tuple), st.lists(packets, max_size=5).map(tuple))
def test_what_the_radios_heard_is_one_list_for_others(ble, uwb):
    senses = Senses(1.0, np.zeros(3), np.zeros(3), heard={"ble": ble, "uwb": uwb})
    made = radio_scan(senses, "dots1_base_link", (1, 2))
    got = deserialize_message(made, msg.RadioScan)
    assert got.header.frame_id == "dots1_base_link"
    told = [(each.peer, bytes(each.data), each.rssi, each.range) for each in got.contacts]
    expected = [
        (p.sender, p.payload, *(math.nan if x is None else x for x in (p.rssi, p.distance)))
        for p in (*ble, *uwb)
    ]
    assert repr(told) == repr(expected)


def test_what_a_robot_has_no_part_for_stays_none():
    bare = Senses(1.5, np.zeros(3), np.zeros(3))
    sent = sent_senses(bare, ())
    assert math.isnan(sent.heading)
    assert math.isnan(sent.lifter_height)
    car = RobotSpec.load("dots").model_copy(update={"ranges": ()})
    assert same(senses_from_msg(sent, car), bare)
    # A ring that sees nothing is not the same as no ring.
    assert senses_from_msg(sent, DOTS).points_body.shape == (0, 2)


def test_a_sweep_without_any_return_and_a_radio_that_heard_nothing():
    senses = Senses(
        0.0,
        np.zeros(3),
        np.zeros(3),
        ranges={"tof": np.full(16, math.inf)},
        points_body=np.empty((0, 2)),
        heard={"ble": ()},
    )
    got = senses_from_msg(sent_senses(senses, ["ble", "uwb"]), DOTS)
    assert np.isinf(got.ranges["tof"]).all()
    assert got.heard == {"ble": (), "uwb": ()}


def test_ten_thousand_packets_of_a_kilobyte_come_through():
    heard = tuple(RadioPacket(float(k), f"dots{k}", bytes([k % 256]) * 1000) for k in range(10_000))
    senses = Senses(0.0, np.zeros(3), np.zeros(3), heard={"ble": heard})
    sent = sent_senses(senses, ["ble"])
    assert heard_from_msg(sent)["ble"] == heard


def broken(**fields) -> msg.Senses:
    """Return senses of a DOTS robot of which something is wrong."""
    sent = sent_senses(Senses(2.5, np.zeros(3), np.zeros(3), points_body=np.empty((0, 2))), ())
    for name, value in fields.items():
        setattr(sent, name, value)
    return sent


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"motion": msg.MotionStatus(mode=3)}, "index"),
        ({"motion": msg.MotionStatus(outcome=99)}, "99 is not a valid Outcome"),
        ({"zone": msg.Zone(zone=7)}, "7 is not a valid Zone"),
        ({"pose_map": [1.0, 2.0]}, "pose_map of 2 numbers"),
        ({"pose_covariance": [1.0] * 6}, "pose_covariance of 6 numbers"),
        ({"points_body": [1.0, 2.0, 3.0]}, "reshape"),
        ({"collision_map": [msg.CollisionMap(cells=[0.5] * 9)]}, "cells: 9 numbers"),
        ({"refused": ["a", "b"], "refused_counts": [1]}, "zip"),
        ({"imu": [1.0] * 6}, "imu of 6 numbers"),
        ({"position": [1.0]}, "position of 1 numbers"),
        ({"spots": [msg.CameraSpots(camera="front", spots=[1.0] * 4)]}, "reshape"),
    ],
)
def test_broken_senses_are_told_with_their_time(fields, said):
    with pytest.raises(WireError, match=r"senses of time 2\.5: ") as raised:
        senses_from_msg(over_the_wire(broken(**fields)), DOTS)
    assert said in str(raised.value)


def test_a_map_of_another_kind_of_robot_is_told():
    senses = dataclasses.replace(
        Senses(0.0, np.zeros(3), np.zeros(3)), collision_map=CollisionMap(DOTS, params_of(0.06))
    )
    sent = sent_senses(senses, ())
    with pytest.raises(WireError, match=r"cells: \d+ numbers, expected \d+"):
        senses_from_msg(sent, DOTS)


def params_of(cell: float):
    from swarmbed_core.collision_map import CollisionMapParams

    return CollisionMapParams(cell=cell)


# Commands

vectors = st.tuples(numbers, numbers, numbers)
waypoints = st.builds(Waypoint, vectors, vectors)
limits = st.none() | st.floats(1e-300, 1e300)
paths = st.builds(
    Path,
    st.lists(waypoints, min_size=1, max_size=5).map(tuple),
    st.sampled_from(["odom", "base_link", "map"]),
    limits,
    limits,
)
switches = st.none() | st.booleans()
commands = st.builds(
    Command,
    st.none() | st.tuples(st.floats(), st.floats(), st.floats()),
    st.none() | paths,
    st.booleans(),
    switches,
    st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40),
    st.none() | st.dictionaries(texts, payloads, min_size=1, max_size=3),
    switches,
    switches,
    switches,
)


def back(command: Command, **fields) -> Command:
    made = command_to_msg(command, **({"time": 0.0, "run": 0, "doing": ""} | fields))
    return command_from_msg(over_the_wire(made))


@property_test
@given(commands, st.floats(), counts, texts)
def test_commands_come_back_to_the_bit(command, time, run, doing):
    sent = over_the_wire(command_to_msg(command, time=time, run=run, doing=doing))
    got = command_from_msg(sent)
    # Velocities may be NaN, which equals nothing: an Onboard is to refuse that, and must get it.
    assert same(np.array(got.velocity_body or ()), np.array(command.velocity_body or ()))
    assert dataclasses.replace(got, velocity_body=None) == dataclasses.replace(command, velocity_body=None)
    assert (sent.run, sent.doing) == (run, doing)
    assert same(np.array(sent.time), np.array(time))


def test_a_command_of_nothing_is_nothing():
    assert back(Command()) == Command()
    assert back(Command(leds=[], send={})) == Command()


def test_a_path_of_a_thousand_waypoints_comes_back():
    path = Path(tuple(Waypoint((0.1 * k, -1e300, 3.0)) for k in range(MAX_WAYPOINTS)))
    assert back(Command(path=path)).path == path


def test_whole_numbers_are_as_good_as_others():
    path = Path((Waypoint((1, 2, 3), (0, 1, 0)),), max_speed=1, max_acceleration=2)
    got = back(Command(path=path, velocity_body=(1, 0, np.int64(2))))
    assert got.path == path
    assert got.path.max_speed == 1.0
    assert got.velocity_body == (1.0, 0.0, 2.0)


def test_numpys_switches_and_colours_are_taken():
    got = back(Command(lift=np.True_, cancel=np.False_, leds=np.array([1, 2]), send={"ble": bytearray(b"a")}))
    assert got == Command(lift=True, leds=[1, 2], send={"ble": b"a"})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("stop", "command.type: found str, expected a Command"),
        (Command(velocity_body="fast"), "command.velocity_body: found 'fast'"),
        (Command(velocity_body=(1.0, 2.0)), "command.velocity_body"),
        (Command(path="home"), "command.path: found str, expected a Path"),
        (Command(cancel=None), "command.cancel"),
        (Command(lift="off"), "command.lift: found 'off', expected True or False"),
        (Command(power=1), "command.power: found 1"),
        (Command(leds=3), "not iterable"),
        (Command(leds=["red"]), "'str' object cannot be interpreted as an integer"),
        (Command(leds=[1.5]), "'float' object cannot be interpreted as an integer"),
        (Command(leds=[2**40]), "greater than maximum"),
        (Command(send={"ble": 10**12}), "command.send"),
        (Command(send={"ble": "text"}), "command.send"),
        (Command(send={7: b"a"}), "found 7, expected a text"),
        (Command(send={"\udcff": b"a"}), "surrogates"),
    ],
)
def test_what_no_message_can_hold_is_told(command, said):
    with pytest.raises(WireError) as raised:
        back(command)
    assert said in str(raised.value)


@pytest.mark.parametrize("doing", [5, None, "\udcff"])
def test_what_a_program_does_is_a_text(doing):
    with pytest.raises(WireError, match="command: "):
        back(Command(), doing=doing)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"velocity_body": [1.0, 2.0]}, "velocity_body of 2 numbers: expected vx, vy, omega"),
        ({"velocity_body": [1.0] * 1000}, "velocity_body of 1000 numbers"),
        ({"path": [msg.Path(frame="odom", waypoints=[msg.Waypoint()])] * 2}, "2 paths: expected at most one"),
        ({"path": [msg.Path(frame="odom")]}, "a path of 0 waypoints"),
        ({"path": [msg.Path(waypoints=[msg.Waypoint()])]}, "frame ''"),
        ({"lift": 2}, "lift is 2: expected -1, 0 or 1"),
        ({"carrying": -2}, "carrying is -2"),
        ({"motors": 127}, "motors is 127"),
        ({"power": -128}, "power is -128"),
    ],
)
def test_messages_that_are_no_command_are_told(fields, said):
    sent = over_the_wire(msg.Command(**fields))
    with pytest.raises(WireError, match=said):
        command_from_msg(sent)


def test_a_message_of_defaults_wants_nothing():
    assert command_from_msg(over_the_wire(msg.Command())) == Command()


def test_keep_is_what_a_program_says_that_wants_nothing():
    sent = command_to_msg(Command(lift=False), time=0.0, run=0, doing="")
    keep = msg.Command.KEEP
    assert (sent.lift, sent.carrying, sent.motors, sent.power) == (msg.Command.NO, keep, keep, keep)


# Paths


def place(**fields) -> msg.Waypoint:
    return msg.Waypoint(x=1.0, **fields)


@pytest.mark.parametrize("count", [1, MAX_WAYPOINTS])
def test_paths_have_at_least_one_and_at_most_so_many_waypoints(count):
    assert len(path_of("odom", [place()] * count, 0.0, 0.0).waypoints) == count


@pytest.mark.parametrize("count", [0, MAX_WAYPOINTS + 1, 5_000_000])
def test_other_counts_are_refused_before_anything_is_made_of_them(count):
    class Never(list):
        def __len__(self):
            return count

        def __iter__(self):
            raise AssertionError

    with pytest.raises(WireError, match=f"a path of {count} waypoints: expected 1 to {MAX_WAYPOINTS}"):
        path_of("odom", Never(), 0.0, 0.0)


def test_a_limit_of_zero_is_the_robots_own():
    path = path_of("map", [place(y=2.0, yaw=0.5, vx=0.1, vy=0.2, omega=0.3)], 0.0, 0.0)
    assert (path.max_speed, path.max_acceleration, path.frame) == (None, None, "map")
    assert path.waypoints == (Waypoint((1.0, 2.0, 0.5), (0.1, 0.2, 0.3)),)
    limited = path_of("odom", [place()], 0.5, 1.5)
    assert (limited.max_speed, limited.max_acceleration) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("frame", "waypoint", "speed", "acceleration", "said"),
    [
        ("", place(), 0.0, 0.0, "frame ''"),
        ("dots1_odom", place(), 0.0, 0.0, "frame 'dots1_odom'"),
        ("odom", place(y=math.nan), 0.0, 0.0, "pose of a waypoint"),
        ("odom", place(omega=-math.inf), 0.0, 0.0, "velocity of a waypoint"),
        ("odom", place(), -0.1, 0.0, "max_speed"),
        ("odom", place(), math.nan, 0.0, "max_speed"),
        ("odom", place(), 0.0, math.inf, "max_acceleration"),
    ],
)
def test_what_no_robot_can_follow_is_told(frame, waypoint, speed, acceleration, said):
    with pytest.raises(WireError, match=said):
        path_of(frame, [waypoint], speed, acceleration)


# What a program must know first


@pytest.mark.parametrize("kind", ["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_a_robots_file_comes_back(kind):
    spec = RobotSpec.load(kind)
    assert spec_from_text(spec_to_text(spec)) == spec


@pytest.mark.parametrize("text", ["", "[1", "just words", "version: 7", "a: \0", spec_to_text(EPUCK)[:200]])
def test_a_text_that_is_no_robots_file_is_told(text):
    with pytest.raises(ConfigError, match="the robot's info"):
        spec_from_text(text)


@property_test
@given(st.integers(0, 2**31 * 1_000_000_000 - 1))
def test_stamps_are_normal(nanoseconds):
    stamp = stamp_of(nanoseconds / 1e9)
    assert 0 <= stamp.nanosec < 1_000_000_000
    assert stamp.sec + stamp.nanosec / 1e9 == pytest.approx(nanoseconds / 1e9, abs=1e-6)


def test_a_time_before_the_start_is_the_start():
    assert (stamp_of(-1e-12).sec, stamp_of(-5.0).nanosec) == (0, 0)
    assert stamp_of(0.9999999999).sec == 1


def test_modes_outcomes_and_zones_are_numbered_alike():
    assert [getattr(msg.MotionStatus, mode.name) for mode in MODES] == [0, 1, 2]
    assert set(MODES) == set(Mode)
    assert [getattr(msg.MotionStatus, outcome.name) for outcome in Outcome] == list(Outcome)
    assert [getattr(msg.Zone, zone.name) for zone in Zone] == list(Zone)
    assert len(msg.CollisionMap().state) == CollisionMap(DOTS).content[1].size
