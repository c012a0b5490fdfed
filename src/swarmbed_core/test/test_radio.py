"""Who hears whom, how strong, how far; what is lost and what is refused."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import ConfigError
from swarmbed_core.radio import CLOSEST, RadioModel, distance_from_rssi, heard_distance, mean_rssi
from swarmbed_core.spec import Radio, RobotSpec

if TYPE_CHECKING:
    from swarmbed_core.device import RadioPart
    from swarmbed_core.geometry import FloatArray

property_test = settings(deadline=None, max_examples=200, derandomize=True)
FAR = 10.0
places = st.floats(-5.0, 5.0)
pose_lists = st.lists(st.tuples(places, places, st.floats(-7.0, 7.0)), min_size=1, max_size=6)


class TestClock:
    """A clock that the test sets."""

    __test__ = False
    time = 0.0


@cache
def spec_radio(kind: str, name: str) -> Radio:
    (radio,) = [radio for radio in RobotSpec.load(kind).radios if radio.name == name]
    return radio


def packet(**changes: object) -> Radio:
    fields = {"name": "r", "kind": "packet", "range_max": 2.0, "payload_bytes": 8, "rate": 10.0}
    return Radio.model_validate({**fields, **changes})


def model(radio: Radio, robots: int = 2, seed: int = 0, **options: object) -> RadioModel:
    names = [f"r{i}" for i in range(robots)]
    return RadioModel(radio, np.random.default_rng(seed), names, **options)  # type: ignore[arg-type]


def row(*xs: float) -> FloatArray:
    """Return poses on the x axis that look along it."""
    return np.array([[x, 0.0, 0.0] for x in xs])


# Signal strength and range.


@property_test
@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0))
def test_mean_rssi_falls_with_distance(a: float, b: float) -> None:
    near, far = sorted((a, b))
    assert mean_rssi(near, -55.0, 2.0) >= mean_rssi(far, -55.0, 2.0)
    assert math.isfinite(mean_rssi(0.0, -55.0, 2.0))


def test_rssi_at_a_metre_and_a_decade_away() -> None:
    assert mean_rssi(1.0, -55.0, 2.0) == -55.0
    assert mean_rssi(10.0, -55.0, 2.0) == pytest.approx(-75.0)


@property_test
@given(st.floats(CLOSEST, FAR))
def test_distance_from_rssi_inverts_the_mean(distance: float) -> None:
    ble = spec_radio("dots", "ble")
    assert ble.rssi_at_1m is not None
    assert ble.path_loss_exponent is not None
    rssi = mean_rssi(distance, ble.rssi_at_1m, ble.path_loss_exponent)
    assert distance_from_rssi(rssi, ble) == pytest.approx(distance, rel=1e-9)


def test_distance_from_rssi_stays_within_reach() -> None:
    ble = spec_radio("dots", "ble")
    assert distance_from_rssi(-1e6, ble) == pytest.approx(ble.range_max)
    assert distance_from_rssi(1e6, ble) == pytest.approx(CLOSEST)
    assert distance_from_rssi(math.nan, ble) is None
    assert distance_from_rssi(math.inf, ble) is None
    assert distance_from_rssi(-60.0, packet()) is None


@pytest.mark.parametrize("distance", [0.3, 1.0, 4.0])
def test_ble_rssi_has_the_specs_noise_about_its_mean(distance: float) -> None:
    ble = spec_radio("dots", "ble")
    count = 4000
    noisy = model(ble).rssi(np.full(count, distance))
    assert noisy is not None
    assert ble.rssi_at_1m is not None
    assert ble.path_loss_exponent is not None
    mean = mean_rssi(distance, ble.rssi_at_1m, ble.path_loss_exponent)
    # Five standard errors.
    assert abs(noisy.mean() - mean) < 5 * ble.rssi_sigma / math.sqrt(count)
    assert noisy.std() == pytest.approx(ble.rssi_sigma, rel=5 / math.sqrt(2 * count))
    estimates = [distance_from_rssi(value, ble) for value in noisy]
    in_decades = ble.rssi_sigma / (10 * ble.path_loss_exponent)
    # The standard error of a median is 1.2533 sigma / sqrt(n).
    assert abs(np.log10(np.median(estimates) / distance)) < 5 * 1.2533 * in_decades / math.sqrt(count)  # type: ignore[arg-type]


def test_rssi_falls_with_distance_on_average() -> None:
    medium = model(spec_radio("dots", "ble"), seed=3)
    means = []
    for distance in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        noisy = medium.rssi(np.full(500, distance))
        assert noisy is not None
        means.append(noisy.mean())
    # Doubling costs 6 dB; the standard error of a mean is 0.18 dB.
    assert np.all(np.diff(means) < -5.0)


@pytest.mark.parametrize("distance", [0.0, 0.05, 2.0])
def test_uwb_measures_to_a_tenth_of_a_metre_and_never_below_zero(distance: float) -> None:
    uwb = spec_radio("dots", "uwb")
    assert uwb.range_sigma == 0.1
    count = 4000
    measured = model(uwb).ranges(np.full(count, distance))
    assert measured is not None
    assert measured.min() >= 0.0
    if distance > 1.0:
        assert abs(measured.mean() - distance) < 5 * 0.1 / math.sqrt(count)
        assert measured.std() == pytest.approx(0.1, rel=5 / math.sqrt(2 * count))


def test_a_radio_that_does_not_measure_says_so() -> None:
    medium = model(packet())
    assert medium.rssi(np.ones(3)) is None
    assert medium.ranges(np.ones(3)) is None


# Who hears whom.


def who_hears(poses_map: FloatArray, radio: Radio) -> np.ndarray:
    """Return whether the robot of each row is within reach of the robot of each column, before any loss."""
    count = len(poses_map)
    heard = np.zeros((count, count), dtype=np.bool_)
    for receiver in range(count):
        for sender in range(count):
            distance = heard_distance(poses_map, sender, receiver, radio.range_max, radio.beam)
            heard[receiver, sender] = distance >= 0
    return heard


@property_test
@given(pose_lists, st.floats(0.1, 8.0), st.floats(0.1, math.tau))
def test_who_hears_whom_is_geometry(
    poses: list[tuple[float, float, float]], reach: float, beam: float
) -> None:
    poses_map = np.array(poses)
    heard = who_hears(poses_map, packet(range_max=reach, beam=beam))
    assert heard.shape == (len(poses), len(poses))
    assert not heard.diagonal().any()
    for sender, (x, y, yaw) in enumerate(poses):
        for receiver, (x2, y2, _) in enumerate(poses):
            distance = math.hypot(x2 - x, y2 - y)
            bearing = math.remainder(math.atan2(y2 - y, x2 - x) - yaw, math.tau)
            close = abs(distance - reach) < 1e-9 or abs(abs(bearing) - beam / 2) < 1e-6 or distance < 1e-9
            if sender != receiver and not close:
                assert heard[receiver, sender] == (distance <= reach and abs(bearing) <= beam / 2)


def test_the_reach_is_inclusive_and_coincident_robots_hear_each_other() -> None:
    assert who_hears(row(0.0, 2.0), packet()).tolist() == [[False, True], [True, False]]
    assert who_hears(row(0.0, 2.001), packet()).tolist() == [[False, False], [False, False]]
    assert who_hears(row(1.0, 1.0), packet(beam=0.1)).sum() == 2


def test_direct_messages_reach_within_fifteen_degrees_of_the_heading() -> None:
    direct = spec_radio("pera_swarm", "direct")
    for degrees, heard in (
        (0, True),
        (14.9, True),
        (-14.9, True),
        (15.1, False),
        (-15.1, False),
        (180, False),
    ):
        angle = math.radians(degrees)
        for yaw in (0.0, 1.0, -3.0, 10.0):
            at = (0.5 * math.cos(yaw + angle), 0.5 * math.sin(yaw + angle), 0.0)
            assert who_hears(np.array([(0.0, 0.0, yaw), at]), direct)[1, 0] == heard


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_robot_without_a_pose_is_off_the_air(axis: int, value: float) -> None:
    poses_map = row(0.0, 1.0, 1.5)
    poses_map[1, axis] = value
    heard = who_hears(poses_map, packet())
    assert not heard[:, 1].any()
    assert heard[0, 2]
    assert heard[2, 0]
    if axis < 2:
        assert not heard[1].any()
    assert heard_distance(poses_map, 1, 0, 2.0, 1.0) == -1.0
    assert heard_distance(poses_map, 1, 0, 2.0, math.tau) == -1.0


# Messages.


def test_a_packet_reaches_whoever_is_near_and_not_its_sender() -> None:
    medium = model(packet(), robots=3)
    assert medium.send(0, b"hello", 0.0)
    medium.step(0.1, row(0.0, 1.0, 5.0))
    (heard,) = medium.read(1)
    assert (heard.sender, heard.payload, heard.stamp) == ("r0", b"hello", 0.1)
    assert heard.rssi is None
    assert heard.distance is None
    assert medium.read(0) == medium.read(2) == medium.read(1) == []
    medium.step(0.2, row(0.0, 1.0, 5.0))
    assert medium.read(1) == []
    assert (medium.sent, medium.heard, medium.lost) == (1, 1, 0)


def test_ports_are_radio_parts_on_a_shared_medium() -> None:
    medium, clock = model(packet()), TestClock()
    a: RadioPart = medium.port("r0", clock)
    b: RadioPart = medium.port("r1", clock)
    a.send(b"one")
    clock.time = 0.1
    a.send(b"two")
    medium.step(0.1, row(0.0, 1.0))
    assert [heard.payload for heard in b.read()] == [b"one", b"two"]
    assert b.read() == []
    with pytest.raises(ConfigError, match="no robot 'x' among r0, r1"):
        medium.port("x", clock)


def test_ble_advertises_name_and_data_by_itself() -> None:
    medium = model(spec_radio("dots", "ble"))
    for tick in range(100):
        medium.step(0.01 * tick, row(0.0, 1.0))
        if tick == 45:
            assert medium.send(0, b"42", 0.45)
    heard = medium.read(1)
    assert [item.payload for item in heard] == [b""] * 5 + [b"42"] * 5
    assert {item.sender for item in heard} == {"r0"}
    assert all(item.rssi is not None and -90 < item.rssi < -20 for item in heard)
    assert all(item.distance is None for item in heard)


def test_uwb_ranges_by_itself_and_carries_nothing() -> None:
    medium = model(spec_radio("dots", "uwb"))
    medium.step(0.0, row(0.0, 3.0))
    (heard,) = medium.read(0)
    assert heard.sender == "r1"
    assert heard.payload == b""
    assert heard.rssi is None
    assert heard.distance == pytest.approx(3.0, abs=0.6)
    assert not medium.send(0, b"x", 0.0)
    assert medium.health.counts == {"radio.too_long": 1}


def test_what_carries_nothing_is_no_message() -> None:
    ble = spec_radio("dots", "ble")
    medium = model(ble, robots=3, loss=0.3)
    poses_map = row(0.0, 1.0, 2.0)
    poses_map[2] = math.nan
    for tick in range(100):
        medium.step(0.1 * tick, poses_map)
    assert len(medium.read(0)) > 0
    assert (medium.sent, medium.heard, medium.lost) == (0, 0, 0)
    # Of the three that advertise something one is off the air, and the second takes it back.
    for sender in range(3):
        medium.send(sender, b"hi", 0.0)
    medium.step(10.0, poses_map)
    medium.send(1, b"", 0.0)
    medium.step(10.1, poses_map)
    assert medium.sent == 3
    assert medium.heard + medium.lost == 3
    packets = model(packet())
    packets.send(0, b"", 0.0)
    packets.step(0.0, row(0.0, 1.0))
    assert [item.payload for item in packets.read(1)] == [b""]
    assert (packets.sent, packets.heard, packets.lost) == (0, 0, 0)


def test_a_share_of_the_advertisements_is_lost_and_who_never_reads_keeps_the_newest() -> None:
    medium = model(spec_radio("dots", "ble"), robots=3, seed=1, loss=0.3)
    medium.send(0, b"hi", 0.0)
    for tick in range(1000):
        medium.step(0.1 * tick, row(0.0, 0.0, 0.0))
        for receiver in range(2):
            assert all(p.payload == (b"hi" if p.sender == "r0" else b"") for p in medium.read(receiver))
    assert medium.sent == 1000
    assert medium.heard + medium.lost == 2000
    assert medium.lost / 2000 == pytest.approx(0.3, abs=5 * math.sqrt(0.3 * 0.7 / 2000))
    kept = medium.read(2)
    assert len(kept) == 64
    assert kept[-1].stamp == pytest.approx(99.9, abs=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_the_share_that_is_lost_is_the_specs(seed: int) -> None:
    medium = model(packet(loss=0.3), robots=21, seed=seed, queue=1000)
    poses_map = row(*np.linspace(0.0, 1.0, 21))
    for tick in range(200):
        medium.send(0, b"x", 0.1 * tick)
        medium.step(0.1 * tick, poses_map)
    count = 200 * 20
    assert medium.sent == 200
    assert medium.heard + medium.lost == count
    assert medium.lost / count == pytest.approx(0.3, abs=5 * math.sqrt(0.3 * 0.7 / count))
    assert sum(len(medium.read(i)) for i in range(21)) == medium.heard


def test_a_scenario_can_lose_everything_or_nothing() -> None:
    for loss, heard in ((1.0, 0), (0.0, 1)):
        medium = model(packet(loss=0.5), loss=loss)
        medium.send(0, b"x", 0.0)
        medium.step(0.0, row(0.0, 1.0))
        assert len(medium.read(1)) == heard


def test_the_same_seed_gives_the_same_noise() -> None:
    def run(seed: int) -> list[float | None]:
        medium = model(spec_radio("dots", "ble"), robots=4, seed=seed)
        medium.step(0.0, row(0.0, 1.0, 2.0, 3.0))
        return [heard.rssi for robot in range(4) for heard in medium.read(robot)]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_a_payload_that_is_too_long_or_none_is_refused() -> None:
    medium = model(packet())
    assert medium.send(0, b"12345678", 0.0)
    assert not medium.send(0, b"123456789", 1.0)
    assert not medium.send(0, "text", 2.0)  # type: ignore[arg-type]
    assert not medium.send(0, None, 2.0)  # type: ignore[arg-type]
    assert medium.health.counts == {"radio.too_long": 1, "radio.not_bytes": 2}
    assert "radio r of r0: 9 bytes, at most 8 fit" in medium.health.latest["radio.too_long"]


def test_a_bytearray_is_copied() -> None:
    medium, payload = model(packet()), bytearray(b"abc")
    medium.send(0, payload, 0.0)
    payload[0] = 0
    medium.step(0.0, row(0.0, 1.0))
    assert medium.read(1)[0].payload == b"abc"


def test_sending_at_the_rate_works_and_faster_is_refused() -> None:
    medium = model(packet())
    assert all(medium.send(0, b"x", 0.1 * i) for i in range(100))
    medium = model(packet())
    accepted = sum(medium.send(0, b"x", 0.01 * i) for i in range(1000))
    assert accepted == pytest.approx(100, abs=2)
    assert medium.health.counts["radio.too_often"] == 1000 - accepted
    assert medium.send(1, b"x", 0.0)


@property_test
@given(st.lists(st.floats(0.0, 0.3), max_size=60))
def test_no_window_holds_more_than_the_rate_allows(gaps: list[float]) -> None:
    medium, now, accepted = model(packet()), 0.0, []
    for gap in gaps:
        now += gap
        if medium.send(0, b"x", now):
            accepted.append(now)
    for i, start in enumerate(accepted):
        for count, end in enumerate(accepted[i:], start=1):
            assert count <= 1.5 + 10.0 * (end - start) + 1e-6


def test_a_clock_that_steps_backwards_is_counted_and_silences_nobody() -> None:
    medium = model(packet())
    assert medium.send(0, b"x", 100.0)
    assert medium.send(0, b"x", 1.0)
    assert not medium.send(0, b"x", 1.0)
    assert not medium.send(0, b"x", math.nan)
    medium.step(math.nan, row(0.0, 1.0))
    assert medium.read(1) == []
    medium.step(1.0, row(0.0, 1.0))
    assert len(medium.read(1)) == 2
    assert medium.health.counts == {"radio.clock": 3, "radio.too_often": 1}


def test_a_full_queue_drops_the_oldest() -> None:
    medium = model(packet(), queue=3)
    for i in range(5):
        medium.send(0, bytes([i]), float(i))
        medium.step(float(i), row(0.0, 1.0))
    assert [heard.payload[0] for heard in medium.read(1)] == [2, 3, 4]
    assert medium.health.counts == {"radio.queue_full": 2}
    assert "radio r of r1" in medium.health.latest["radio.queue_full"]


@pytest.mark.parametrize("poses", [row(0.0), row(0.0, 1.0, 2.0), np.zeros((2, 2)), np.zeros(6)])
def test_poses_of_other_robots_are_refused(poses: FloatArray) -> None:
    medium = model(packet())
    medium.send(0, b"x", 0.0)
    medium.step(0.0, poses)
    assert medium.health.counts == {"radio.poses": 1}
    assert medium.read(1) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": -0.1}, "loss"),
        ({"loss": 1.1}, "loss"),
        ({"loss": math.nan}, "loss"),
        ({"queue": 0}, "queue"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        model(packet(), **options)


def test_robots_come_to_the_air_and_leave_it() -> None:
    medium = model(packet(), robots=3)
    for sender in range(3):
        medium.send(sender, bytes([sender]), 0.0)
    medium.step(0.0, row(0.0, 0.1, 0.2))
    assert [heard.sender for heard in medium.read(0)] == ["r1", "r2"]
    medium.send(1, b"gone", 0.1)
    medium.add("new")
    medium.remove(1)
    assert medium.names == ("r0", "r2", "new")
    # What was heard before is still there to read; what was not sent yet is not.
    assert [heard.sender for heard in medium.read(1)] == ["r0", "r1"]
    assert medium.send(2, b"x", 0.1)
    medium.step(0.1, row(0.0, 0.1, 0.2))
    assert [(heard.sender, heard.payload) for heard in medium.read(0)] == [("new", b"x")]
    assert [heard.sender for heard in medium.read(1)] == ["new"]
    assert medium.read(2) == []
    assert (medium.sent, medium.heard) == (4, 8)
    # The rate of r2, who has sent, is still its own, and a new r1 may send at once.
    assert not medium.send(1, b"x", 0.01)
    medium.add("r1")
    assert medium.send(3, b"x", 0.01)
    with pytest.raises(ConfigError, match="already a robot 'r0'"):
        medium.add("r0")


def test_who_comes_to_beacons_is_heard_at_once() -> None:
    medium = model(packet(kind="uwb", range_sigma=0.0), robots=2)
    medium.send(1, b"ad", 0.0)
    medium.add("new")
    medium.remove(0)
    medium.step(0.0, row(0.0, 1.0))
    assert [(heard.sender, heard.payload) for heard in medium.read(1)] == [("r1", b"ad")]
    assert [(heard.sender, heard.payload) for heard in medium.read(0)] == [("new", b"")]
    assert (medium.sent, medium.heard) == (1, 1)
    for _ in range(2):
        medium.remove(0)
    medium.step(1.0, np.empty((0, 3)))
    assert medium.health.counts == {}


def test_names_must_differ() -> None:
    with pytest.raises(ConfigError, match="same name"):
        RadioModel(packet(), np.random.default_rng(0), ["a", "a"])


def test_every_kinds_radios_work(any_spec: RobotSpec) -> None:
    for radio in any_spec.radios:
        medium = model(radio)
        medium.send(0, b"hi"[: radio.payload_bytes], 0.0)
        medium.step(0.0, row(0.0, 0.5))
        (heard,) = medium.read(1)
        assert heard.sender == "r0"
        assert (heard.rssi is None) == (radio.rssi_at_1m is None)
        assert (heard.distance is None) == (radio.range_sigma is None)
