"""docs/robot_api.md is what a running world has: every topic, action, service, parameter and frame."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib
import itertools
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")

from ament_index_python.packages import get_package_prefix
from swarmbed_experiments.launching import trial
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

from swarmbed_interfaces.msg import WorldStatus
from swarmbed_robot import (
    api,
    controller,
    detector,
    host,
    navigator,
    onboard,
    qos,
    recorder,
    teleop,
    tf_relay,
    world,
)
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "robot_api.md").read_text(encoding="utf-8")
PATIENCE = 60.0

LOCALISED = """
version: 1
title: one robot that knows its place
world: mujoco
arena: dots_arena
time_limit: 1000
robots: [{kind: dots, localised: true, place: {poses: [[0.0, 0.0, 0.0]]}}]
carriers: [{place: {poses: [[0.55, 0.0, 0.0]]}}]
controller: {name: random_walk}
"""


def rows(heading):
    """The rows of the tables below a heading, as lists of cells; `cam0/x` to `cam4/x` stands for five."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [each for row in table if "`" in row[0] for each in spread(row)]


def spread(row):
    """A row, or the rows of all things that it speaks of."""
    several = re.fullmatch(r"`cam(\d)(\S*)` to `cam(\d)\2`(\*?)", row[0])
    if several is None:
        return [row]
    first, rest, last, star = several.groups()
    return [[f"`cam{n}{rest}`{star}", *row[1:]] for n in range(int(first), int(last) + 1)]


def word(cell):
    return cell.rstrip("*").strip("`")


def row_of(option):
    """How the page shows an option."""
    default = option.default
    if default in ("", []):
        default = "none"
    elif isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, list):
        default = ", ".join(default)
    bounds = f"{option.low:g} to {option.high:g}" if option.bounded else ""
    return f"| `{option.name}` | {default} | {', '.join(option.choices) or bounds} | {option.text} |"


def own(options, *others):
    known = {option.name for other in others for option in other}
    return [option for option in options if option.name not in known]


TABLES = {
    "Of `world`, `trial` (": api.OPTIONS,
    "Of `world` and `trial`:": own(host.OPTIONS, api.OPTIONS),
    "Of `world` alone:": own(world.OPTIONS, host.OPTIONS),
    "Of `trial` alone:": [*own(trial.OPTIONS, host.OPTIONS), trial.OPTIONS[-1]],
    "Of `onboard`:": own(onboard.OPTIONS, api.OPTIONS),
    "Of `controller`:": controller.OPTIONS,
    "Of `tf_relay`:": tf_relay.OPTIONS,
    "Of `recorder`:": recorder.OPTIONS,
    "Of `teleop`:": teleop.OPTIONS,
    "Of `detector`:": detector.OPTIONS,
    "Of `navigator`:": navigator.OPTIONS,
}


def table_of(options):
    return "\n".join(["| parameter | default | range | what |", "|---|---|---|---|", *map(row_of, options)])


@pytest.mark.parametrize("heading", TABLES)
def test_parameters(heading):
    section = PAGE.split("## Parameters\n")[1].split("\n## ")[0]
    after = section.split(heading)[1]
    shown = after[after.index("|") :].split("\n\n")[0].strip()
    assert shown == table_of(TABLES[heading])


WHICH = {
    "scenario",
    "world",
    "robots",
    "seed",
    "wait",
    "directory",
    "name",
    "out",
    "record",
    "robot",
    "controller",
    "parameters",
    "kind",
    "device",
    "arena",
    "localise",
    "topics",
    "keys",
    "recorder",
    "program_owns",
    "cameras",
    "compressed",
    "carriers",
}
"""What says which robots or files a node is about: nobody tunes it, the command line says it."""


def test_the_file_of_parameters_has_what_is_worth_tuning():
    file = yaml.safe_load((ROOT / "config" / "ros" / "nodes.yaml").read_text(encoding="utf-8"))
    told = {name: section["ros__parameters"] for name, section in file.items()}
    tables = {
        "/**": api.OPTIONS,
        "world": own(host.OPTIONS, api.OPTIONS),
        "/**/controller": controller.OPTIONS,
        "tf_relay": tf_relay.OPTIONS,
        "recorder": recorder.OPTIONS,
        "teleop": teleop.OPTIONS,
        "navigator": navigator.OPTIONS,
        "/**/detector": detector.OPTIONS,
    }
    tuned = {
        name: {option.name: option.default for option in options if option.name not in WHICH}
        for name, options in tables.items()
    }
    assert told == tuned


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A world with one robot that knows its place and stands before a carrier, and a node that looks."""
    folder = tmp_path_factory.mktemp("world")
    file = folder / "localised.yaml"
    file.write_text(LOCALISED, encoding="utf-8")
    # Whatever goes wrong below, no world outlives it: another test would meet it in this domain.
    with contextlib.ExitStack() as held:
        domain = held.enter_context(own_domain())
        spinner = Spinner(domain=domain)
        held.callback(spinner.close)
        yield visitor(folder, domain, spinner, file, held)


def visitor(folder, domain, spinner, file, held):
    """A node that has discovered all of a world that was started in its domain."""
    node = spinner.node("visitor")
    statuses, frames, static = [], [], []
    node.create_subscription(WorldStatus, "/world/status", statuses.append, qos.LATCHED)
    node.create_subscription(TFMessage, "/tf", frames.append, qos.TF)
    node.create_subscription(TFMessage, "/tf_static", static.append, qos.LATCHED)
    program = f"{get_package_prefix('swarmbed_robot')}/lib/swarmbed_robot/world"
    log = held.enter_context((folder / "log").open("wb"))
    process = subprocess.Popen(
        [program, str(file), "--speed", "1"],
        env=os.environ | {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    held.callback(process.wait, 20)
    held.callback(process.terminate)

    def until(done, what):
        end = time.monotonic() + PATIENCE
        while not done():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, f"no sign of {what}"
            spinner.once(0.05)

    until(lambda: statuses and statuses[-1].time > 1.0, "the world")
    # What is told of the graph is of what was discovered as yet.
    services = {word(row[0]) for row in rows("A world") if len(row) == 3}
    services |= {f"/dots1/{word(row[0])}/_action/send_goal" for row in rows("Actions of a robot")}
    topics = {f"/dots1/{word(row[0])}" for row in rows("Topics of a robot")}
    until(lambda: ("world", "/") in node.get_node_names_and_namespaces(), "the world's node")
    until(
        lambda: services <= {n for n, _ in node.get_service_names_and_types_by_node("world", "/")}, "services"
    )
    until(lambda: topics <= there(node, "/dots1/").keys(), "topics")
    node.frames, node.static, node.until, node.spinner = frames, static, until, spinner
    return node


def there(graph, prefix):
    """The topics of others below a prefix: name -> (type, direction), without those of actions."""
    found = {}
    for name, kinds in graph.get_topic_names_and_types():
        if name.startswith(prefix) and "/_action" not in name:
            [kind] = kinds
            publishers = [i for i in graph.get_publishers_info_by_topic(name) if i.node_name == "world"]
            listeners = [i for i in graph.get_subscriptions_info_by_topic(name) if i.node_name == "world"]
            if publishers or listeners:
                found[name] = (kind, "out" if publishers else "in")
    return found


def test_topics_of_a_robot(graph):
    told = {f"/dots1/{word(row[0])}": (word(row[2]), row[1]) for row in rows("Topics of a robot")}
    assert there(graph, "/dots1/") == told


def test_qualities_of_service(graph):
    for row in rows("Topics of a robot"):
        name = f"/dots1/{word(row[0])}"
        if row[1] == "in":
            [info] = [i for i in graph.get_subscriptions_info_by_topic(name) if i.node_name == "world"]
            assert (info.qos_profile.reliability.name == "RELIABLE") == ("Reliable" in row[4]), name
            continue
        [info] = [i for i in graph.get_publishers_info_by_topic(name) if i.node_name == "world"]
        assert (info.qos_profile.reliability.name == "BEST_EFFORT") == ("Best effort" in row[4]), name
        assert (info.qos_profile.durability.name == "TRANSIENT_LOCAL") == ("Latched" in row[4]), name


def test_topics_and_services_of_a_world(graph):
    table = rows("A world")
    topics = {word(row[0]): (word(row[2]), row[1]) for row in table if len(row) == 4}
    hidden = {"/rosout", "/parameter_events"}
    graph.until(lambda: topics.keys() <= there(graph, "/").keys(), "all topics")
    ours = {name: found for name, found in there(graph, "/").items() if not name.startswith("/dots1/")}
    assert {name: found for name, found in ours.items() if name not in hidden} == topics
    services = {word(row[0]): word(row[1]) for row in table if len(row) == 3}
    known = {
        name: kinds[0]
        for name, kinds in graph.get_service_names_and_types_by_node("world", "/")
        if name.startswith("/world/") and not kinds[0].startswith(("rcl_interfaces", "type_description"))
    }
    assert known == services


def test_actions(graph):
    found = {}
    for name, kinds in graph.get_service_names_and_types_by_node("world", "/"):
        if name.endswith("/_action/send_goal"):
            found[name.removesuffix("/_action/send_goal")] = kinds[0].removesuffix("_SendGoal")
    told = {f"/dots1/{word(row[0])}": word(row[1]) for row in rows("Actions of a robot")}
    assert found == told


def test_rates(graph):
    """What has a rate comes at it, of the world's time; tf has the sights of tags besides."""
    told = {word(row[0]): float(row[3].split()[0]) for row in rows("Topics of a robot") if "Hz" in row[3]}
    # All images at once are too many for this machine; one camera's have a test of their own.
    told = {name: rate for name, rate in told.items() if "/image" not in name}
    got = {name: [] for name in told}
    made = []
    for name in told:
        topics = dict(graph.get_topic_names_and_types())
        package, _, kind = topics[f"/dots1/{name}"][0].split("/")
        message = getattr(importlib.import_module(f"{package}.msg"), kind)
        made.append(
            graph.create_subscription(message, f"/dots1/{name}", got[name].append, qos.SENSOR, raw=True)
        )
    statuses = []
    made.append(graph.create_subscription(WorldStatus, "/world/status", statuses.append, qos.OUTPUT))
    graph.until(lambda: all(got.values()), "all of them")
    for messages in got.values():
        messages.clear()
    statuses.clear()
    graph.until(lambda: len(statuses) > 6, "three seconds")
    seconds = statuses[-1].time - statuses[0].time
    for subscription in made:
        graph.destroy_subscription(subscription)
    for name, rate in told.items():
        if name != "tf":
            assert len(got[name]) / seconds == pytest.approx(rate, rel=0.25, abs=1.0), name


@pytest.mark.skipif(ctypes.util.find_library("EGL") is None, reason="no EGL here: no images")
def test_images(graph):
    """One camera's image topics: who listens gets images of the encoding, the frame and the rate told."""
    told = {word(row[0]): row for row in rows("Topics of a robot") if row[0].startswith("`cam0/")}
    kinds = {
        name: getattr(importlib.import_module("sensor_msgs.msg"), word(row[2]).rpartition("/")[2])
        for name, row in told.items()
    }
    got = {name: [] for name in told}
    made = [graph.create_subscription(k, f"/dots1/{n}", got[n].append, qos.OUTPUT) for n, k in kinds.items()]
    graph.until(lambda: all(len(messages) > 20 for messages in got.values()), "images")
    for subscription in made:
        graph.destroy_subscription(subscription)
    image, tagged = got["cam0/image"][-1], got["cam0/image_tags"][-1]
    assert (image.encoding, image.width, image.height) == ("rgb8", 640, 480)
    assert (tagged.encoding, tagged.width, tagged.height) == ("bgr8", 640, 480)
    for name, messages in got.items():
        assert {sent.header.frame_id for sent in messages} == {"dots1_cam0_optical_frame"}, name
        stamps = [sent.header.stamp.sec + 1e-9 * sent.header.stamp.nanosec for sent in messages[-20:]]
        if name != "cam0/camera_info":
            # Who is slow loses some: a busy machine's listener has not all of them.
            steps = [after - before for before, after in itertools.pairwise(stamps)]
            assert statistics.median(steps) == pytest.approx(1 / 30, rel=0.25), name
            assert stamps[-1] - stamps[0] < 2.0, name
    frames = {t.child_frame_id for sent in graph.static for t in sent.transforms}
    assert "dots1_cam0_optical_frame" in frames


def test_frames(graph):
    def known():
        messages = [*graph.frames, *graph.static]
        return {t.child_frame_id: t.header.frame_id for sent in messages for t in sent.transforms}

    graph.until(lambda: "dots1_cam0_fid100" in known() or "dots1_cam3_fid100" in known(), "the carrier's tag")
    graph.until(lambda: any(re.fullmatch(r"dots1_cam\d_fid0\d\d", name) for name in known()), "a wall's tag")
    found = known()
    assert found["dots1_odom"] == "map"
    assert found["dots1_base_link"] == "dots1_odom"
    assert found["dots1_lifter_link"] == "dots1_base_link"
    assert found["dots1_cam4_link"] == "dots1_lifter_link"
    for name in ("cam0_link", "cam1_link", "cam2_link", "cam3_link", "tof00", "tof15"):
        assert found[f"dots1_{name}"] == "dots1_base_link"
    assert found["dots1_imu_link"] == "dots1_body_link"
    for name, parent in found.items():
        tag = re.fullmatch(r"(dots1_cam\d)_fid\d\d\d", name)
        if tag:
            assert parent == f"{tag.group(1)}_link"


def displays(items):
    """All displays of an rviz configuration, those of groups too."""
    for item in items:
        yield item
        yield from displays(item.get("Displays", ()))


def test_rviz_shows_what_is_there(graph):
    file = yaml.safe_load((ROOT / "config" / "rviz" / "swarm.rviz").read_text(encoding="utf-8"))
    found = {}
    for display in displays(file["Visualization Manager"]["Displays"]):
        topic = display.get("Topic") or display.get("Description Topic")
        if topic is not None:
            found[topic["Value"]] = (topic["Reliability Policy"], topic["Durability Policy"])
    ours = {name: wanted for name, wanted in found.items() if not re.match(r"/dots[2-9]/", name)}
    assert ours.keys() == {
        *("/scene", "/carriers", "/map"),
        *(f"/dots1/{topic}" for topic in ("robot_description", "sensor/scan", "collision_map", "path")),
        *(f"/dots1/{camera}/image_tags" for camera in ("cam0", "cam4")),
    }
    for name, (reliability, durability) in ours.items():
        [info] = [i for i in graph.get_publishers_info_by_topic(name) if i.node_name == "world"]
        offered = info.qos_profile
        assert offered.reliability.name == reliability.upper().replace(" ", "_"), name
        assert offered.durability.name == durability.upper().replace(" ", "_"), name
    assert {name.replace("dots3", "dots1") for name in found if "dots3" in name} <= ours.keys()
