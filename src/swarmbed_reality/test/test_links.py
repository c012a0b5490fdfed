"""Remote parts: sessions, signatures, loss, foreign clocks, and motors that stop by themselves."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from swarmbed_core.device import ImuReading, MotorReading, RadioPacket, RangeReading
from swarmbed_reality.errors import RealityError
from swarmbed_reality.links import Link, RemoteMotors, RemoteQueue, RemoteSense
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

    def drive(self, speeds):
        self.speeds = speeds

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
        parts = {
            "motors": self.wheels,
            "imu": SimpleNamespace(
                read=lambda: ImuReading(self.time + AHEAD, (0.0, 0.0, 0.25), (0.0, 0.0, 9.81))
            ),
            "ranges/tof": SimpleNamespace(read=lambda: RangeReading(self.time + AHEAD, np.full(16, np.inf))),
            "radios/ble": SimpleNamespace(read=lambda: self.heard, send=self.sent.append),
        }
        self.server = PartServer("dots1", key, parts, address, clock=lambda: self.time + AHEAD)
        where = address.replace(":0", f":{self.server.port}") if address.startswith("udp") else address
        self.link = Link("dots1", KEY, where, now=lambda: self.time)
        clock = WorldClock(self)
        self.motors = RemoteMotors(self.link, clock, 3, lambda: self.time)
        self.imu = RemoteSense(self.link, "imu", clock, lambda: self.time, again=True)
        self.tof = RemoteSense(self.link, "ranges/tof", clock, lambda: self.time)
        self.ble = RemoteQueue(self.link, "radios/ble", clock, lambda: self.time)

    def run(self, seconds, speeds=(0.0, 0.0, 0.0)):
        """Let both sides run at 100 Hz; the world drives unless `speeds` is None."""
        for _ in range(round(100 * seconds)):
            self.time += 0.01
            self.link.poll()
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
    with pytest.raises(RealityError, match="no reading of its wheels yet"):
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
    assert set(site.link.parts) == {"motors", "imu", "ranges/tof", "radios/ble"}


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
    site.run(0.25, None)
    assert site.wheels.speeds == [0.5, 0.5, 0.5]
    site.run(0.1, None)
    assert site.wheels.speeds == [0.0, 0.0, 0.0]


def test_a_robot_is_lost_and_found(site):
    site.run(0.5)
    port = site.server
    steps, port.step = port.step, lambda: None
    site.run(1.0)
    assert not site.link.there
    assert site.link.losses == 1
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
        (KEY, "http://127.0.0.1:1", "expected udp://HOST:PORT or unix:///PATH"),
        (KEY, "udp://127.0.0.1", "expected udp://HOST:PORT"),
    ],
)
def test_wrong_keys_and_addresses_are_named(key, address, said):
    with pytest.raises(RealityError, match=said):
        Link("dots1", key, address)
    with pytest.raises(ValueError, match=said):
        PartServer("dots1", key, {}, address)


def test_it_runs_in_real_time():
    wheels = Wheels(time.monotonic)
    server = PartServer("dots1", KEY, {"motors": wheels}, "udp://127.0.0.1:0")
    thread = threading.Thread(target=server.run)
    thread.start()
    link = Link("dots1", KEY, f"udp://127.0.0.1:{server.port}")
    motors = RemoteMotors(link, SimpleNamespace(time=0.0), 3, time.monotonic)
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
