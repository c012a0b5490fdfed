"""Standard topics: declared once, and the same whoever encodes them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from rclpy.serialization import deserialize_message
from swarmbed_core.config import names
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.api import OPTIONS
from swarmbed_robot.topics import RATES, TOPICS, Live, Owner, Quality, Sensed, encoders_of, topics_of

from swarmbed_robot import qos

RECORDED = {name for topic in TOPICS if topic.recorded for name in [topic.name]}


class Clock:
    now = (12, 345)

    @staticmethod
    def at(seconds):
        return divmod(round(seconds * 1e9), 1_000_000_000)


def class_of(kind):
    package, _, name = kind.partition("/msg/")
    return getattr(import_module(f"{package}.msg"), name)


@pytest.fixture(scope="module")
def robot():
    """A robot that has seen something."""
    swarm = LocalSwarm(MemoryWorld.of(["dots"], arena="dots_arena", seed=1))
    swarm.run(1.0)
    return swarm.robots[0]


@pytest.mark.parametrize("kind", names("config/robots"))
def test_what_is_encoded_is_a_message_of_the_declared_type(kind):
    swarm = LocalSwarm(MemoryWorld.of([kind], arena="dots_arena", seed=1))
    swarm.run(1.0)
    live = Live(swarm.robots[0].onboard)
    made = {}
    for name, (topic, encode) in encoders_of(Owner(kind, RobotSpec.load(kind))).items():
        encode.ready()
        assert encode.news(live)
        sent = encode(live, Clock())
        if sent is not None:
            made[name] = deserialize_message(sent, class_of(topic.kind))
    assert {"sensor/scan", "sensor/zone", "sensor/dropzone", "collision_map"} <= made.keys()
    assert {name for name in made if name.startswith("sensor/laser/")}
    for message in made.values():
        if hasattr(message, "header"):
            assert message.header.frame_id.startswith(f"{kind}_")
            assert message.header.stamp.sec in {0, 1, 12}


def test_recordings_and_the_api_say_the_same(robot):
    """One knows the Onboard, the other what its program has sensed."""
    senses = robot.sense()
    assert np.isfinite(senses.points_body).any()
    made = Owner("dots1", robot.spec)
    both = encoders_of(made), encoders_of(made, recorded=True)
    assert set(both[1]) == RECORDED == {"sensor/scan", "collision_map"}
    for name, (_, encode) in both[1].items():
        live = both[0][name][1](Live(robot.onboard), Clock())
        assert encode(Sensed(senses), Clock()) == live
        assert len(live) > 100


def test_a_scan_is_news_once_for_each_sweep(robot):
    live = Live(robot.onboard)
    _, encode = encoders_of(Owner("dots1", robot.spec))["sensor/scan"]
    assert encode.waits
    assert encode.news(live)
    assert not encode.news(live)
    _, laser = encoders_of(Owner("dots1", robot.spec))["sensor/laser/tof"]
    assert laser.waits
    assert laser.news(live)
    assert laser.news(live), "not sent yet"
    laser(live, Clock())
    assert not laser.news(live)


def test_each_part_has_its_topic_and_what_is_missing_has_none():
    dots, epuck = (set(topics_of(Owner(kind, RobotSpec.load(kind)))) for kind in ("dots", "epuck2"))
    assert {"cam0_tags", "cam4/image", "sensor/laser/tof", "battery_state", "lifter_height"} <= dots
    assert {"sensor/laser/proximity", "sensor/laser/tof"} <= epuck
    assert "lifter_height" not in epuck
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)
    for topic in TOPICS:
        assert class_of(topic.kind)
        assert topic.quality in qos.PROFILES
        assert topic.recorded == 0 or topic.encoder


def test_rates_are_options_and_parts_are_no_faster_than_they_measure():
    defaults = {option.name: option.default for option in OPTIONS}
    assert all(defaults[rate.name] == rate.default for rate in RATES)
    found = topics_of(Owner("dots1", RobotSpec.load("dots")))
    rates = {name: topic.hertz(part, defaults) for name, (topic, part) in found.items()}
    assert rates["sensor/imu"] == 100.0
    assert rates["cam0_tags"] == 30.0
    assert rates["info"] == rates["cam0/camera_info"] == 1.0
    slow, part = found["sensor/laser/tof"]
    assert slow.hertz(part, defaults | {"scan_rate": 100.0}) == part.rate
    assert found["senses"][0].quality is Quality.LATCHED


def test_a_sensor_of_several_numbers_has_a_topic_by_itself(robot):
    made = Owner("dots1", robot.spec, sensors={"position": 10.0, "humidity": 5.0, "spots.cam0": 30.0})
    found = topics_of(made)
    assert {"sensor/position", "sensor/humidity", "sensor/spots/cam0"} <= set(found)
    assert found["sensor/humidity"][0].hertz(found["sensor/humidity"][1], {}) == 5.0
    values = {"position": np.array([1.0, 2.0]), "humidity": np.array([0.5]), "spots.cam0": np.eye(5)[:3]}
    known = SimpleNamespace(sensed=lambda name: (7.25, values[name]))
    for name, sensor in (("position", "position"), ("humidity", "humidity"), ("spots/cam0", "spots.cam0")):
        topic, encode = encoders_of(made)[f"sensor/{name}"]
        told = deserialize_message(encode(known, Clock()), class_of(topic.kind))
        if name == "position":
            assert (told.header.stamp.sec, told.point.x, told.point.y) == (7, 1.0, 2.0)
            continue
        assert told.data.tolist() == values[sensor].ravel().tolist()
        assert tuple(dim.size for dim in told.layout.dim) == values[sensor].shape
    none = Sensed(robot.sense())
    assert encoders_of(made)["sensor/spots/cam0"][1](none, Clock()) is None


def test_recordings_need_no_ros():
    program = "import sys, swarmbed_robot.topics; sys.exit('rclpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
