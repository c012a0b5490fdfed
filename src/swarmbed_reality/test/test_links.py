"""Remote parts: sessions, signatures, loss, foreign clocks, and motors that stop by themselves."""

import contextlib
import select
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.device import (
    CornerReading,
    ImuReading,
    MotorReading,
    RadioPacket,
    RangeReading,
    SensorReading,
)
from swarmbed_reality.errors import RealityError
from swarmbed_reality.links import (
    Link,
    RemoteBeat,
    RemoteMotors,
    RemoteQueue,
    RemoteSense,
    Schedule,
    Terms,
)
from swarmbed_reality.part_server import PartServer

from swarmbed_reality import part_server as wire

KEY = b"sixteen bytes or more"
AHEAD = 5000.0


class Wheels:
    """Three wheels that turn as they are told."""

    def __init__(self, clock):
        self.clock, self.speeds, self.on = clock, [0.0] * 3, True

    def enable(self, on):
        self.on = on

    def drive(self, speeds, hold):
        self.speeds, self.hold = speeds, hold

    def read(self):
        return MotorReading(self.clock(), np.arange(3.0), np.array(self.speeds), 0.5)


class WorldClock:
    """A world's clock that began 90 s after the machine's."""

    def __init__(self, site):
        self.site = site

    @property
    def time(self):
        return self.site.time - 90.0


class Site:
    """A robot and a world on one machine; their time passes when the test says so."""

    def __init__(self, address="udp://127.0.0.1:0", key=KEY):
        self.time = 100.0
        self.wheels = Wheels(lambda: self.time + AHEAD)
        self.heard, self.sent = [], []
        self.spots = np.array([[80.0, 60.0, 255.0, 0.0, 0.0]] * 2)
        parts = {
            "motors": self.wheels,
            "imu": SimpleNamespace(
                read=lambda: ImuReading(self.time + AHEAD, (0.0, 0.0, 0.25), (0.0, 0.0, 9.81))
            ),
            "ranges/tof": SimpleNamespace(read=lambda: RangeReading(self.time + AHEAD, np.full(16, np.inf))),
            "radios/ble": SimpleNamespace(read=lambda: self.heard, send=self.sent.append),
            "position": SimpleNamespace(read=lambda: SensorReading(self.time + AHEAD, np.array([1.5, -2.0]))),
            "spots/front": SimpleNamespace(read=lambda: SensorReading(self.time + AHEAD, self.spots)),
        }
        self.server = PartServer("dots1", key, parts, address, clock=lambda: self.time + AHEAD)
        where = address.replace(":0", f":{self.server.port}") if address.startswith("udp") else address
        self.link = Link("dots1", KEY, where, WorldClock(self), now=lambda: self.time)
        self.motors = RemoteMotors(self.link, 3)
        self.imu = RemoteSense(self.link, "imu")
        self.tof = RemoteBeat(self.link, "ranges/tof")
        self.ble = RemoteQueue(self.link, "radios/ble")

    def run(self, seconds, speeds=(0.0, 0.0, 0.0)):
        """Let both sides run at 100 Hz; the world drives unless `speeds` is None."""
        for _ in range(round(100 * seconds)):
            self.time += 0.01
            self.link.cycle()
            if speeds is not None:
                self.motors.drive(np.array(speeds))
            self.server.step()

    def close(self):
        self.link.close()
        self.server.close()


@pytest.fixture(params=["udp", "unix"])
def site(request, tmp_path):
    made = Site("udp://127.0.0.1:0" if request.param == "udp" else f"unix://{tmp_path}/dots1.sock")
    yield made
    made.close()


def test_parts_elsewhere_are_like_those_here(site):
    with pytest.raises(RealityError, match=r"dots1: parts at .*: no reading of motors yet"):
        site.motors.read()
    site.run(1.0, (0.1, 0.2, 0.3))
    assert site.link.there
    assert site.wheels.speeds == [0.1, 0.2, 0.3]
    reading = site.motors.read()
    assert reading.stamp == pytest.approx(site.time - 90.0, abs=0.011)
    assert reading.travel.tolist() == [0.0, 1.0, 2.0]
    assert site.imu.read().gyro == (0.0, 0.0, 0.25)
    assert site.imu.read().gyro == (0.0, 0.0, 0.25)
    assert np.isinf(site.tof.read().distances).all()
    assert site.tof.read() is None
    assert set(site.link.parts) == {
        "motors", "imu", "ranges/tof", "radios/ble", "position", "spots/front",
    }  # fmt: skip


def test_sensors_elsewhere_measure_rows_too_and_none(site):
    position, spots = RemoteBeat(site.link, "position"), RemoteBeat(site.link, "spots/front")
    site.run(1.0)
    reading = position.read()
    assert reading.values.tolist() == [1.5, -2.0]
    assert reading.stamp == pytest.approx(site.time - 90.0, abs=0.011)
    assert spots.read().values.tolist() == site.spots.tolist()
    site.spots = np.empty((0, 5))
    site.run(0.1)
    assert spots.read().values.shape == (0, 5)


def test_packets_go_both_ways_once(site):
    site.run(0.2)
    assert site.ble.send(b"hello")
    site.run(0.02)
    assert site.sent == [b"hello"]
    site.heard[:] = [RadioPacket(site.time + AHEAD, "dots2", b"\x00you", -50.0)]
    site.run(0.02)
    site.heard.clear()
    packets = site.ble.read()
    assert packets[0].payload == b"\x00you"
    assert packets[0].rssi == -50.0
    assert site.ble.read() == []


def test_motors_stop_when_nobody_drives(site):
    site.run(0.5, (0.5, 0.5, 0.5))
    assert site.wheels.hold == 0.3
    site.link.flush = lambda *_: None
    site.run(0.25, None)
    assert site.wheels.speeds == [0.5, 0.5, 0.5]
    site.run(0.1, None)
    assert site.wheels.speeds == [0.0, 0.0, 0.0]


def test_motors_hold_no_longer_than_they_are_asked_to(site):
    site.run(0.5)
    site.motors.drive(np.full(3, 0.5), 0.05)
    site.link.flush = lambda *_: None
    site.run(0.04, None)
    assert site.wheels.speeds == [0.5, 0.5, 0.5]
    site.run(0.03, None)
    assert site.wheels.speeds == [0.0, 0.0, 0.0]


def test_a_robot_is_lost_and_found(site):
    site.run(0.5)
    port = site.server
    steps, port.step = port.step, lambda: None
    site.run(1.0)
    assert not site.link.there
    assert site.link.losses == 1
    for part in (site.motors, site.imu):
        with pytest.raises(RealityError, match="lost: it does not answer"):
            part.read()
    assert site.tof.read() is None
    port.step = steps
    site.run(1.0, (0.1, 0.1, 0.1))
    assert site.link.there
    assert site.wheels.speeds == [0.1, 0.1, 0.1]


def test_a_robot_that_starts_again_is_found(site, tmp_path):
    site.run(0.5)
    old = site.server
    address = f"udp://127.0.0.1:{old.port}" if old._socket.family.name != "AF_UNIX" else None
    parts = old.parts
    old.close()
    site.server = PartServer(
        "dots1", KEY, parts, address or f"unix://{tmp_path}/dots1.sock", clock=lambda: site.time + AHEAD
    )
    site.run(2.0, (0.2, 0.2, 0.2))
    assert site.link.there
    assert site.wheels.speeds == [0.2, 0.2, 0.2]


def test_another_key_moves_nothing():
    site = Site(key=b"another key of some length")
    site.run(2.0, (0.5, 0.5, 0.5))
    assert site.wheels.speeds == [0.0, 0.0, 0.0]
    assert not site.link.there
    assert site.server.refused > 0
    site.close()


def test_repeated_datagrams_have_no_effect():
    site = Site()
    taken = []
    handle = site.server._handle
    site.server._handle = lambda data, peer: (taken.append((data, peer)), handle(data, peer))
    site.run(0.5, (0.5, 0.5, 0.5))
    site.run(0.5, (0.1, 0.1, 0.1))
    refused = site.server.refused
    for data, peer in tuple(taken):
        handle(data, peer)
    assert site.wheels.speeds == [0.1, 0.1, 0.1]
    assert site.server.refused >= refused + len(taken) - 5
    site.run(0.5, (0.2, 0.2, 0.2))
    assert site.wheels.speeds == [0.2, 0.2, 0.2]
    site.close()


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"hold": "long", "set": {}},
        {"hold": 0.1, "set": []},
        {"hold": 0.1, "set": {"motors": 7}},
        {"hold": 0.1, "set": {"motors": [True, ["fast"]]}},
        {"hold": float("nan"), "set": {"nothing": 1}},
        {"hold": 0.1, "set": {"motors": [True, [9.0, 9.0, 9.0]]}, "time": 1.0},
    ],
)
def test_nonsense_with_a_valid_signature_is_refused_or_noted(content):
    site = Site()
    site.run(0.2, (0.1, 0.1, 0.1))
    for kind in (0, 1, 2, 3, 77):
        site.link._send(site.link._session, kind, content)
        site.server.step()
    site.run(0.1, (0.1, 0.1, 0.1))
    assert site.wheels.speeds == [0.1, 0.1, 0.1]
    site.close()


def test_garbage_is_refused_and_counted():
    site = Site()
    site.run(0.2)
    rng = np.random.default_rng(1)
    for size in (0, 1, 15, 16, 17, 200, 5000):
        data = rng.bytes(size)
        site.server._handle(data, ("127.0.0.1", 9))
        site.link._handle(data)
        site.server._handle(wire.MAGIC + data, ("127.0.0.1", 9))
    assert site.server.refused == 14
    assert site.link.refused == 7
    site.close()


@pytest.mark.parametrize(
    ("key", "address", "said"),
    [
        (b"short", "udp://127.0.0.1:1", "the key has 5 bytes"),
        (b"k" * 65, "udp://127.0.0.1:1", "the key has 65 bytes: expected 16 to 64"),
        (KEY, "http://127.0.0.1:1", "expected udp://HOST:PORT or unix:///PATH"),
        (KEY, "udp://127.0.0.1", "expected udp://HOST:PORT"),
    ],
)
def test_wrong_keys_and_addresses_are_named(key, address, said):
    with pytest.raises(RealityError, match=said):
        Link("dots1", key, address, SimpleNamespace(time=0.0))
    with pytest.raises(ValueError, match=said):
        PartServer("dots1", key, {}, address)


def test_it_runs_in_real_time():
    wheels = Wheels(time.monotonic)
    server = PartServer("dots1", KEY, {"motors": wheels}, "udp://127.0.0.1:0")
    thread = threading.Thread(target=server.run)
    thread.start()
    link = Link("dots1", KEY, f"udp://127.0.0.1:{server.port}", SimpleNamespace(time=0.0))
    motors = RemoteMotors(link, 3)
    link.connect(20.0)
    assert link.clock.offset(time.monotonic()) == pytest.approx(0.0, abs=0.01)
    assert (link.real, link.there, link.name) == (
        True,
        True,
        f"dots1: parts at udp://127.0.0.1:{server.port}",
    )
    end = time.monotonic() + 20.0
    while wheels.speeds != [0.3] * 3 or not link.clock.known:
        assert time.monotonic() < end
        link.poll()
        motors.drive(np.full(3, 0.3))
        time.sleep(0.01)
    link.close()
    while wheels.speeds != [0.0] * 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    server.stop()
    thread.join()


def test_a_hold_that_is_no_number_holds_not_at_all():
    site = Site()
    site.run(0.2)
    content = {"hold": float("nan"), "set": {"motors": [True, [0.5] * 3]}}
    site.link._send(site.link._session, wire.SET, content)
    site.server.step()
    site.time += 0.001
    site.server.step()
    assert site.wheels.speeds == [0.0, 0.0, 0.0]
    site.close()


def test_old_readings_are_refused_and_counted():
    site = Site()
    site.run(0.5)
    assert site.link.stale == 0
    read = site.wheels.read
    site.wheels.read = lambda: read()._replace(stamp=site.time + AHEAD - 1.2)
    # One is on its way.
    site.run(0.01)
    fresh = site.motors.read().stamp
    site.run(0.3)
    assert site.motors.read().stamp == fresh
    assert site.link.stale >= 29
    assert site.link.state["stale readings"] == str(site.link.stale)
    # Late ones that are young enough keep the time at which they were true.
    site.wheels.read = lambda: read()._replace(stamp=site.time + AHEAD - 0.15)
    site.run(0.3)
    assert site.motors.read().stamp == pytest.approx(site.time - 90.0 - 0.15, abs=0.021)
    site.close()


def test_stamps_do_not_depend_on_when_they_are_read():
    """Each reading has one stamp, whether the world's steps are on time or late."""
    site = Site()
    site.run(1.0)
    clock, late = site.link._world, 0.0
    rng = np.random.default_rng(3)
    stamps, true = [], []
    for _ in range(300):
        site.time += 0.01
        late = float(rng.choice([0.0, 0.0, 0.008, 0.03]))
        # The world shows the time at which it should have made this step.
        site.link._world = SimpleNamespace(time=clock.time - late)
        site.link.cycle()
        site.motors.drive(np.zeros(3))
        stamps += [site.motors.read().stamp, site.motors.read().stamp]
        true.append(site.time - 90.0)
        site.server.step()
    assert stamps[::2] == stamps[1::2]
    assert (np.diff(stamps[::2]) >= 0).all()
    # A world that is 30 ms late cannot take a reading for newer than itself.
    assert np.abs(np.array(stamps[::2]) - true).max() < 0.045
    site.link._world = clock
    site.close()


def test_the_schedule_is_that_of_the_steps_on_time():
    schedule = Schedule()
    for k in range(1000):
        now = 50.0 + 0.01 * k
        schedule.note(now, 0.01 * k - (0.02 if k % 7 else 0.0))
        assert schedule.ahead == pytest.approx(-50.0)
    # A world that stood for ten seconds.
    schedule.note(70.0, 10.0)
    assert schedule.ahead == pytest.approx(-60.0)


def test_without_motors_the_link_keeps_the_session_by_itself(site):
    site.run(1.0, None)
    assert site.link.there
    assert site.link.clock.known
    assert site.imu.read().stamp == pytest.approx(site.time - 90.0, abs=0.021)


class Simulation:
    """A wheel that rolls at the speed it is told, in steps of 10 ms of a world's time."""

    def __init__(self):
        self.begun, self.now, self.speed, self.rolled = [], 0.0, 0.0, 0.0

    def begin(self, *, lockstep):
        self.begun.append(lockstep)
        self.now = self.speed = self.rolled = 0.0
        return {"motors": self}

    def time(self):
        return self.now

    def advance(self, to):
        self.rolled += self.speed * (to - self.now)
        self.now = to

    def enable(self, on):
        pass

    def drive(self, speeds, hold):
        self.speed, self.hold = speeds[0], hold

    def read(self):
        return MotorReading(self.now, np.array([self.rolled]), np.array([self.speed]))


class Lockstep:
    """A world and a simulated robot in another thread."""

    def __init__(self, losing=lambda _: False):
        self.simulation, self.world = Simulation(), SimpleNamespace(time=20.0)
        self.server = PartServer("r1", KEY, {}, "udp://127.0.0.1:0", stepped=self.simulation)
        deliver = self.server._deliver
        self.server._deliver = lambda data, peer: None if losing(data) else deliver(data, peer)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        terms = Terms(lockstep=True, timeout=1.0)
        self.link = Link("r1", KEY, f"udp://127.0.0.1:{self.server.port}", self.world, terms)
        self.motors = RemoteMotors(self.link, 1)

    def close(self):
        self.link.close()
        self.server.stop()
        self.thread.join()


def test_in_lockstep_the_robots_time_is_the_worlds():
    made = Lockstep()
    made.link.connect(20.0)
    assert not made.link.real
    assert made.simulation.begun == [False, True]
    for k in range(100):
        reading = made.motors.read()
        assert reading.stamp == made.world.time
        # Speeds hold from the cycle that sets them to the next.
        assert reading.travel[0] == pytest.approx(made.simulation.rolled)
        assert made.motors.read() is reading
        made.motors.drive(np.array([0.1 * k]))
        made.world.time += 0.01
    assert made.motors.read().travel[0] == pytest.approx(0.001 * sum(range(100)))
    made.close()


def test_in_lockstep_lost_datagrams_are_asked_for_again():
    count = []
    made = Lockstep(lambda _: bool(count.append(0)) or len(count) % 20 == 7)
    made.link.connect(20.0)
    for _ in range(50):
        made.world.time += 0.01
        made.motors.drive(np.array([0.2]))
        assert made.motors.read().stamp == made.world.time
    assert made.link.losses == 0
    assert made.motors.read().travel[0] == pytest.approx(0.2 * 0.5)
    made.close()


def test_in_lockstep_a_robot_that_does_not_answer_is_lost():
    silent = []
    made = Lockstep(lambda _: bool(silent))
    made.link.connect(20.0)
    silent.append(True)
    made.world.time += 0.01
    with pytest.raises(RealityError, match="lost: it does not answer"):
        made.motors.read()
    assert made.link.losses == 1
    made.world.time += 0.01
    started = time.monotonic()
    with pytest.raises(RealityError, match="lost"):
        made.motors.read()
    assert time.monotonic() - started < 0.9, "a lost robot is not waited for"
    made.close()


def test_real_parts_refuse_lockstep():
    wheels = Wheels(time.monotonic)
    server = PartServer("dots1", KEY, {"motors": wheels}, "udp://127.0.0.1:0")
    thread = threading.Thread(target=server.run)
    thread.start()
    link = Link(
        "dots1", KEY, f"udp://127.0.0.1:{server.port}", SimpleNamespace(time=0.0), Terms(lockstep=True)
    )
    with pytest.raises(RealityError, match="its parts are real and cannot wait for the world"):
        link.connect(20.0)
    link.close()
    server.stop()
    thread.join()


def test_a_robot_that_is_not_there_is_named():
    link = Link("dots1", KEY, "udp://127.0.0.1:9", SimpleNamespace(time=0.0), what="motors")
    said = "dots1: motors at udp://127.0.0.1:9: no answer in 0.1 s; start its part server, or correct"
    with pytest.raises(RealityError, match=said):
        link.connect(0.1)
    link.close()


@pytest.mark.parametrize(
    "change", [{"rate": float("nan")}, {"rate": "fast"}, {"rate": -1}, {"name": "dots2"}, {"nonce": b"short"}]
)
def test_a_hello_that_is_not_right_is_refused(change):
    site = Site()
    hello = {"name": "dots1", "nonce": b"n" * wire.TAG, "rate": 50.0, **change}
    site.server._handle(wire.pack(KEY, wire.HELLO, 1, 0.0, hello), ("127.0.0.1", 9))
    assert site.server.refused == 1
    assert site.server._pending is None
    site.close()


def test_images_that_come_late_keep_the_time_of_their_exposure():
    site = Site()
    late = 0.3
    site.server.parts["cameras"] = SimpleNamespace(
        read=lambda: [CornerReading(site.time + AHEAD - late, "cam0", np.array([7]), np.full((1, 4, 2), 5.0))]
    )
    site.run(0.5)
    queue = RemoteQueue(site.link, "cameras")
    queue.read()
    site.run(0.1)
    shown = queue.read()
    assert len(shown) == 10
    assert shown[-1].stamp == pytest.approx(site.time - 90.0 - late, abs=0.021)
    assert (shown[0].camera, shown[0].ids.tolist(), shown[0].corners.shape) == ("cam0", [7], (1, 4, 2))
    assert queue.read() == []
    late = 1.2
    site.run(0.01)
    queue.read()
    site.run(0.1)
    assert queue.read() == []
    assert site.link.stale >= 10
    site.close()


def test_a_stamp_from_the_future_does_not_hide_the_others():
    site = Site()
    site.run(0.5)
    read = site.wheels.read
    site.wheels.read = lambda: read()._replace(stamp=site.time + AHEAD + 1000.0)
    site.run(0.1)
    # The on-board software judges it.
    assert site.motors.read().stamp > site.time - 90.0 + 999.0
    site.wheels.read = read
    site.run(0.1)
    assert site.motors.read().stamp == pytest.approx(site.time - 90.0, abs=0.021)
    site.close()


NUMBERS = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
VALUES = st.recursive(
    st.none() | NUMBERS | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
PARTS = st.sampled_from(
    ("motors", "imu", "compass", "lifter", "power", "leds", "cameras", "ranges/tof", "radios/ble", "")
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    kind=st.integers(0, 5),
    content=st.fixed_dictionaries(
        {},
        optional={
            "read": st.dictionaries(PARTS, VALUES, max_size=4) | VALUES,
            "heard": VALUES,
            "set": st.dictionaries(PARTS, VALUES, max_size=4) | VALUES,
            "hold": VALUES,
            "time": VALUES,
            "rate": VALUES,
            "name": VALUES,
            "nonce": VALUES,
        },
    ),
)
def test_whatever_is_signed_is_survived(kind, content):
    site = Site()
    site.run(0.2)
    number = 10**6
    site.link._handle(wire.pack(site.link._session, kind, number, site.time + AHEAD, content))
    site.link._handle(wire.pack(KEY, kind, number, site.time + AHEAD, content))
    if site.server._session is not None:
        site.server._handle(
            wire.pack(site.server._session, kind, number, site.time, content), ("127.0.0.1", 9)
        )
    site.server._handle(wire.pack(KEY, kind, number, site.time, content), ("127.0.0.1", 9))
    for part in (site.motors, site.imu, site.tof, site.ble):
        with contextlib.suppress(RealityError):
            part.read()
    site.server.step()
    assert site.wheels.read().travel.tolist() == [0.0, 1.0, 2.0]
    site.close()


STAMP = 100.2 + AHEAD


@pytest.mark.parametrize(
    "read",
    [
        {"cameras": [[STAMP, "cam0", [2**64 - 1], [[0.0] * 8]]]},
        {"cameras": [[STAMP, "cam0", [1, 2], [[0.0] * 8]]]},
        {"motors": [STAMP, ["fast"], [0.0]]},
        {"motors": [STAMP, [0.0] * 2000, [0.0]]},
        {"motors": [STAMP, [0.0] * 3, [0.0, 0.0, float("nan")]]},
        {"imu": [STAMP]},
        {"ranges/tof": [STAMP, [[1.0], [1.0, 2.0]]]},
        {"power": 7},
        {"radios/ble": [[STAMP, "dots2", "a text"]]},
        {"wings": [STAMP, 1.0]},
        {"motors": ["now", [0.0] * 3, [0.0] * 3]},
    ],
)
def test_readings_that_make_no_sense_are_refused_and_counted(read):
    site = Site()
    site.run(0.2)
    data = wire.pack(site.link._session, wire.READ, 10**6, STAMP, {"read": read, "heard": ["a", None]})
    site.link._handle(data)
    assert site.link.refused == 1
    assert site.motors.read().travel.tolist() == [0.0, 1.0, 2.0]
    site.close()


def test_errors_of_the_robots_parts_are_told():
    site = Site()
    site.run(0.2)
    assert not [name for name in site.link.state if name.startswith("failure")]

    def breaks(speeds, hold):
        message = f"no current for {len(speeds)} wheels {hold} " + 500 * "x"
        raise OSError(message)

    site.wheels.drive = breaks
    site.run(0.1)
    assert site.link.state["failure of motors"].startswith("OSError: no current for 3 wheels 0.3 xx")
    assert len(site.link.state["failure of motors"]) == 200
    assert site.motors.read().travel.tolist() == [0.0, 1.0, 2.0]
    site.close()


def world_of(site):
    """Return another world's link to a site's robot, and its motors."""
    link = Link("dots1", KEY, f"udp://127.0.0.1:{site.server.port}", WorldClock(site), now=lambda: site.time)
    return link, RemoteMotors(link, 3)


def test_another_world_does_not_take_a_robot_that_is_in_use():
    site = Site()
    site.run(0.5, (0.5, 0.5, 0.5))
    other, motors = world_of(site)
    for _ in range(300):
        other.cycle()
        motors.drive(np.full(3, -0.5))
        site.run(0.01, (0.5, 0.5, 0.5))
        assert site.wheels.speeds == [0.5, 0.5, 0.5]
    assert (site.link.losses, other.there) == (0, False)
    with pytest.raises(RealityError, match="another world uses it"):
        other.connect(0.0)
    # It does once the other one has ended.
    site.link.close()
    for _ in range(100):
        site.time += 0.01
        other.cycle()
        motors.drive(np.full(3, -0.5))
        site.server.step()
    assert other.there
    assert site.wheels.speeds == [-0.5, -0.5, -0.5]
    other.close()
    site.close()


def test_a_world_that_died_is_replaced_and_gets_no_more_readings():
    site = Site()
    site.run(0.5, (0.5, 0.5, 0.5))
    other, _ = world_of(site)
    for _ in range(200):
        site.time += 0.01
        other.cycle()
        site.server.step()
    assert other.there
    for _ in range(600):
        site.time += 0.01
        site.server.step()
    sent = site.server._sent
    site.time += 1.0
    site.server.step()
    assert site.server._sent == sent
    other.close()
    site.close()


def test_an_answer_that_is_repeated_starts_nothing_anew():
    site = Site()
    taken = []
    handle = site.link._handle
    site.link._handle = lambda data: (taken.append(data), handle(data))
    site.run(0.5)
    clock, refused = site.link.clock, site.link.refused
    for data in tuple(taken):
        handle(data)
    assert site.link.clock is clock
    assert site.link.refused == refused + len(taken)
    site.close()


def test_a_robots_own_datagrams_sent_back_to_it_have_no_effect():
    site = Site()
    site.run(0.3, (0.5, 0.5, 0.5))
    peer, session = site.server._peer, site.server._session
    for number in (1, 10**6):
        reading = wire.pack(session, wire.READ, number, 0.0, {"read": {}, "heard": None})
        site.server._handle(reading, ("127.0.0.1", 9))
    assert site.server._peer == peer
    site.run(0.1, (0.1, 0.1, 0.1))
    assert site.wheels.speeds == [0.1, 0.1, 0.1]
    site.close()


def test_reading_on_does_not_extend_the_time_for_which_speeds_hold(site):
    site.run(0.5, (0.5, 0.5, 0.5))
    site.run(0.25, None)
    assert site.wheels.speeds == [0.5, 0.5, 0.5]
    site.run(0.1, None)
    assert site.link.there
    assert site.wheels.speeds == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "wanted", [[True, [float("nan")] * 3], [True, [0.5, 0.5, float("inf")]], [True, []], 7]
)
def test_speeds_that_make_no_sense_let_the_motors_stop(wanted):
    site = Site()
    site.run(0.5, (0.5, 0.5, 0.5))
    for _ in range(40):
        site.time += 0.01
        site.link._send(site.link._session, wire.SET, {"hold": 0.3, "set": {"motors": wanted}})
        site.server.step()
        assert all(speed in (0.0, 0.5) for speed in site.wheels.speeds)
    assert site.wheels.speeds == [0.0, 0.0, 0.0]
    assert "motors" in site.server.failures
    site.close()


def test_motors_that_do_not_stop_are_stopped_again():
    site = Site()
    site.run(0.5, (0.5, 0.5, 0.5))
    drive, failing = site.wheels.drive, [True]

    def breaks(speeds, hold):
        if failing:
            message = "bus error"
            raise OSError(message)
        drive(speeds, hold)

    site.wheels.drive = breaks
    site.link.flush = lambda *_: None
    site.run(1.0, None)
    assert site.wheels.speeds == [0.5, 0.5, 0.5]
    failing.clear()
    site.run(0.1, None)
    assert site.wheels.speeds == [0.0, 0.0, 0.0]
    site.close()


@pytest.mark.parametrize("reading", [object(), (5100.0, object()), (5100.0, b"x" * 30_000)])
def test_a_reading_that_cannot_be_sent_is_told_and_the_others_are_sent(reading):
    site = Site()
    site.server.parts["imu"] = SimpleNamespace(read=lambda: reading)
    site.server.parts["radios/ble"] = SimpleNamespace(read=object)
    site.run(0.5, (0.1, 0.1, 0.1))
    assert site.motors.read().travel.tolist() == [0.0, 1.0, 2.0]
    assert {"failure of imu", "failure of radios/ble"} <= site.link.state.keys()
    site.close()


def test_a_robot_that_starts_again_has_not_rolled_back(site):
    site.run(0.5)
    before = site.motors.read().travel
    assert before.tolist() == [0.0, 1.0, 2.0]
    site.server._boot = b"another"
    site.server._session = None
    site.wheels.read = lambda: MotorReading(site.time + AHEAD, np.zeros(3), np.zeros(3))
    site.run(1.5)
    assert (site.link.there, site.link.losses, site.link.boots) == (True, 1, 2)
    assert site.motors.read().travel.tolist() == [0.0, 1.0, 2.0]
    site.wheels.read = lambda: MotorReading(site.time + AHEAD, np.full(3, 0.5), np.zeros(3))
    site.run(0.1)
    assert site.motors.read().travel.tolist() == [0.5, 1.5, 2.5]


def test_a_robot_that_was_only_lost_has_rolled_meanwhile(site):
    site.run(0.5)
    site.motors.read()
    site.server._session = None
    site.wheels.read = lambda: MotorReading(site.time + AHEAD, np.full(3, 3.0), np.zeros(3))
    site.run(1.5)
    assert (site.link.losses, site.link.boots) == (1, 1)
    assert site.motors.read().travel.tolist() == [3.0, 3.0, 3.0]


def test_packets_for_a_lost_robot_are_not_kept(site):
    assert not site.ble.send(b"too early")
    site.run(0.2)
    assert [site.ble.send(b"x" * 20_000) for _ in range(3)] == [True, False, False]
    site.run(0.02)
    assert len(site.sent) == 1


def test_parts_that_were_not_announced_are_refused():
    site = Site()
    site.run(0.2)
    read = {f"ranges/{k}": [STAMP, [1.0]] for k in range(50)}
    site.link._handle(wire.pack(site.link._session, wire.READ, 10**6, STAMP, {"read": read}))
    assert site.link.refused == 50
    assert len(site.link._readings) <= len(site.link.parts)
    site.close()


def test_a_part_server_stops_its_motors_at_a_signal():
    wheels = Wheels(time.monotonic)
    server = PartServer("dots1", KEY, {"motors": wheels}, "udp://127.0.0.1:0")
    server._wheels, wheels.speeds = 3, [0.5] * 3
    before = signal.getsignal(signal.SIGTERM)
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGTERM])
    timer.start()
    server.run()
    assert wheels.speeds == [0.0] * 3
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_unix_socket_in_use_is_not_taken_and_files_are_not_removed(tmp_path):
    address, file = f"unix://{tmp_path}/dots1.sock", tmp_path / "dots1.sock"
    server = PartServer("dots1", KEY, {}, address)
    with pytest.raises(OSError, match="in use"):
        PartServer("dots1", KEY, {}, address)
    server._socket.close()
    # One that was killed leaves its socket.
    assert file.is_socket()
    PartServer("dots1", KEY, {}, address).close()
    assert not file.exists()
    file.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        PartServer("dots1", KEY, {}, address)
    assert file.read_text() == "precious"
    with pytest.raises(OSError, match="No such file"):
        PartServer("dots1", KEY, {}, f"unix://{tmp_path}/nowhere/dots1.sock")


def test_ipv6_addresses():
    try:
        site = Site("udp://[::1]:0")
    except OSError:
        pytest.skip("this machine has no IPv6")
    site.run(0.5, (0.2, 0.2, 0.2))
    assert site.wheels.speeds == [0.2, 0.2, 0.2]
    site.close()


def test_in_lockstep_a_server_that_is_gone_is_not_waited_for(tmp_path):
    address = f"unix://{tmp_path}/r1.sock"
    server = PartServer("r1", KEY, {}, address, stepped=Simulation())
    thread = threading.Thread(target=server.run)
    thread.start()
    world = SimpleNamespace(time=20.0)
    link = Link("r1", KEY, address, world, Terms(lockstep=True, timeout=1000.0))
    link.connect(20.0)
    server.stop()
    thread.join()
    # Its farewell is lost.
    while select.select([link._socket], [], [], 0.0)[0]:
        link._socket.recv(1)
    world.time += 0.01
    link.cycle()
    assert link.losses == 1
    link.close()
