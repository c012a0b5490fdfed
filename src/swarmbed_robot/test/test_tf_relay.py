"""The relay of frames: what it says is what renaming says, whatever the bytes."""

import math
import os
import signal
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from geometry_msgs.msg import TransformStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Bool
from swarmbed_robot.errors import RobotError
from swarmbed_robot.tf_relay import Relay, Renamer, Tree, decode, encode

from swarmbed_robot import qos, tf_relay
from tf2_msgs.msg import TFMessage

LATE = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
PREFIX = "dots1_"


def transform(parent, child, *numbers, sec=0, nanosec=0):
    made = TransformStamped()
    made.header.stamp.sec, made.header.stamp.nanosec = sec, nanosec
    made.header.frame_id, made.child_frame_id = parent, child
    x, y, z, qx, qy, qz, qw = (*numbers, *(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)[len(numbers) :])
    moved, turned = made.transform.translation, made.transform.rotation
    moved.x, moved.y, moved.z = x, y, z
    turned.x, turned.y, turned.z, turned.w = qx, qy, qz, qw
    return made


def message(*pairs, **stamp):
    return serialize_message(TFMessage(transforms=[transform(*pair, **stamp) for pair in pairs]))


def read(data):
    return deserialize_message(data, TFMessage)


def pairs(data):
    if isinstance(data, bytes):
        data = read(data)
    return [(each.header.frame_id, each.child_frame_id) for each in data.transforms]


class Robot:
    """One robot's renamer, with what it refused."""

    def __init__(self, name="dots1", roots=("map", "odom")):
        self.tree = Tree(name, roots)
        self.refused = Counter()
        self.renamer = Renamer(self.tree, self.refuse)

    def refuse(self, reason, count):
        self.refused[reason] += count

    def rename(self, data):
        return self.renamer.rename(data)


letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
names = st.one_of(
    st.text(letters, min_size=1, max_size=20).filter(lambda name: not name.startswith("/")),
    st.integers(1, 24).map(lambda length: "f" * length),
    st.sampled_from(["map", "odom", "base_link", "dots1_odom", "dots1_x", "dots10_x", "dots1_"]),
)
numbers = st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 7)
times = st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
transforms = st.lists(st.tuples(names, names, numbers, times), min_size=1, max_size=6)


def expected(sent):
    """Rename, as simply as it can be said."""
    children = {child.removeprefix(PREFIX) for parent, child, _, _ in sent if parent != child}

    def rename(frame):
        root = frame == "map" or (frame == "odom" and frame not in children)
        return frame if root or frame.startswith(PREFIX) else PREFIX + frame

    made = []
    for parent, child, values, (sec, nanosec) in sent:
        new = rename(parent), rename(child)
        if parent != child and new[0] != new[1]:
            made.append(transform(*new, *values, sec=sec, nanosec=nanosec))
    return TFMessage(transforms=made)


@settings(max_examples=200, deadline=None)
@given(transforms, st.data())
def test_relayed_messages_are_what_renaming_gives(sent, data):
    robot = Robot()
    for _ in range(3):  # the second time and the third, the layout is known
        made = [transform(p, c, *v, sec=t[0], nanosec=t[1]) for p, c, v, t in sent]
        renamed = robot.rename(serialize_message(TFMessage(transforms=made)))
        wanted = expected(sent)
        if wanted.transforms:
            assert read(renamed) == wanted
        else:
            assert renamed == b""
        sent = [(p, c, data.draw(numbers), data.draw(times)) for p, c, _, _ in sent]


@given(st.lists(st.tuples(names, names, numbers, times), max_size=6))
@settings(max_examples=50, deadline=None)
def test_bytes_are_taken_apart_and_put_together_as_ros_does(sent):
    made = TFMessage(transforms=[transform(p, c, *v, sec=t[0], nanosec=t[1]) for p, c, v, t in sent])
    data = serialize_message(made)
    taken = decode(data)
    assert [(p.decode(), c.decode()) for _, p, c, _ in taken] == [(p, c) for p, c, _, _ in sent]
    assert read(encode(taken)) == made


@pytest.mark.parametrize("parent", range(1, 9))
@pytest.mark.parametrize("child", range(1, 9))
def test_names_of_all_alignments(parent, child):
    sent = message(("p" * parent, "c" * child, 1.0, 2.0, 3.0), ("c" * child, "x", 4.0), sec=5, nanosec=6)
    renamed = Robot("r").rename(sent)
    assert read(renamed) == TFMessage(
        transforms=[
            transform("r_" + "p" * parent, "r_" + "c" * child, 1.0, 2.0, 3.0, sec=5, nanosec=6),
            transform("r_" + "c" * child, "r_x", 4.0, sec=5, nanosec=6),
        ]
    )


@pytest.mark.parametrize(
    ("sent", "relayed"),
    [
        ([("odom", "base_link")], [("odom", "dots1_base_link")]),
        (
            [("map", "odom"), ("odom", "base_link")],
            [("map", "dots1_odom"), ("dots1_odom", "dots1_base_link")],
        ),
        (
            [("map", "dots1_odom"), ("odom", "base_link")],
            [("map", "dots1_odom"), ("dots1_odom", "dots1_base_link")],
        ),
        ([("world", "map")], [("dots1_world", "map")]),
        ([("base_link", "dots10_arm")], [("dots1_base_link", "dots1_dots10_arm")]),
        ([("/map", "//base_link")], [("map", "dots1_base_link")]),
    ],
)
def test_which_frames_get_the_prefix(sent, relayed):
    assert pairs(Robot().rename(message(*sent))) == relayed


def test_other_roots():
    robot = Robot(roots=("world",))
    assert pairs(robot.rename(message(("world", "odom"), ("map", "a")))) == [
        ("world", "dots1_odom"),
        ("map", "dots1_a"),
    ]


def test_a_root_gets_the_prefix_once_it_turns_out_to_be_none():
    robot = Robot()
    sent = message(("odom", "base_link"))
    assert pairs(robot.rename(sent)) == [("odom", "dots1_base_link")]
    assert pairs(robot.rename(message(("map", "odom")))) == [("map", "dots1_odom")]
    assert pairs(robot.rename(sent)) == [("dots1_odom", "dots1_base_link")]


def test_what_needs_no_change_goes_out_as_it_came():
    robot = Robot()
    first, then = (
        message(("map", "dots1_odom", x), ("dots1_odom", "dots1_base_link", x)) for x in (1.0, 2.0)
    )
    assert robot.rename(first) is first
    assert robot.rename(then) is then
    assert not robot.refused


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("sent", "relayed", "reason"),
    [
        ([], [], tf_relay.NOTHING),
        ([("", "a"), ("b", "c")], [("dots1_b", "dots1_c")], tf_relay.NAMELESS),
        ([("a", "")], [], tf_relay.NAMELESS),
        ([("/", "a")], [], tf_relay.NAMELESS),
        ([("a", "a"), ("b", "c")], [("dots1_b", "dots1_c")], tf_relay.ITSELF),
        ([("a", "dots1_a")], [], tf_relay.ITSELF),
        ([("/a", "b")], [("dots1_a", "dots1_b")], tf_relay.SLASH),
        ([("a", "b", NAN), ("b", "c")], [("dots1_b", "dots1_c")], tf_relay.NOT_FINITE),
        ([("a", "b", INF, -INF)], [], tf_relay.NOT_FINITE),
        ([("map", "dots1_b"), ("dots1_b", "dots1_c", 0.0, INF)], [("map", "dots1_b")], tf_relay.NOT_FINITE),
    ],
)
def test_what_nobody_could_use_is_left_out_and_counted(sent, relayed, reason):
    robot = Robot()
    for _ in range(2):
        renamed = robot.rename(message(*sent))
        assert (pairs(renamed) if renamed else []) == relayed
    assert robot.refused == {reason: 2}


def test_great_numbers_are_finite_though_their_sum_is_not():
    robot = Robot()
    sent = message(("map", "dots1_b", 1.7e308, 1.7e308))
    assert robot.rename(sent) is sent
    assert not robot.refused


def test_names_that_are_no_text():
    robot = Robot()
    for bad in (b"b\xff", b"b\0"):
        assert robot.rename(message(("aa", "bb")).replace(b"bb", bad)) == b""
    assert robot.refused == {tf_relay.NO_TEXT: 2}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_bytes_break_it(data):
    robot = Robot()
    whole = bytearray(message(("map", "odom"), ("odom", "base_link")))
    robot.rename(bytes(whole))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for sent in (cut, data.draw(st.binary(max_size=100)), b"\0\1\0\0" + data.draw(st.binary(max_size=100))):
        renamed = robot.rename(sent)
        if renamed:
            assert len(read(renamed).transforms) in {1, 2}


@pytest.mark.parametrize("start", [b"", b"\0\1\0\0", b"\0\0\0\0\0\0\0\1", b"\0\1\0\0\xff\xff\xff\xff"])
def test_bytes_that_are_no_message(start):
    robot = Robot()
    assert robot.rename(start + bytes(100 if len(start) > 4 else 0)) == b""
    assert robot.refused == {tf_relay.UNREADABLE: 1}


def test_truncated_anywhere():
    whole = message(("map", "odom"), ("odom", "base_link"))
    robot = Robot()
    assert [n for n in range(len(whole)) if robot.rename(whole[:n])] == []
    assert robot.refused == {tf_relay.UNREADABLE: len(whole)}


def test_thousands_of_transforms_and_of_layouts():
    robot = Robot()
    sent = message(*[(f"a{i}", f"b{i}", float(i)) for i in range(3000)])
    for _ in range(2):
        assert pairs(robot.rename(sent)) == [(f"dots1_a{i}", f"dots1_b{i}") for i in range(3000)]
    for i in range(300):
        assert pairs(robot.rename(message(("map", f"b{i}")))) == [("map", f"dots1_b{i}")]
    assert robot.renamer._known <= tf_relay.LAYOUTS


def test_robots_are_found_and_those_who_come_late_get_all_static_frames(ros):
    node = ros.node("robots")
    publishers = {}
    for robot in ("dots1", "dots2"):
        publishers[robot] = node.create_publisher(TFMessage, f"/{robot}/tf", qos.TF)
        static = node.create_publisher(TFMessage, f"/{robot}/tf_static", qos.LATCHED)
        static.publish(TFMessage(transforms=[transform("base_link", "cam0"), transform("base_link", "cam1")]))
    relay = Relay(ros.node("relay"))
    heard = []
    node.create_subscription(TFMessage, "/tf", heard.append, qos.TF)
    ros.spin_until(lambda: sorted(relay.robots) == ["/dots1", "/dots2"], "both robots")
    ros.spin_until(lambda: all(each.get_subscription_count() for each in publishers.values()), "the relay")
    ros.spin_until(relay.publisher.get_subscription_count, "the listener")
    for publisher in publishers.values():
        publisher.publish(TFMessage(transforms=[transform("odom", "base_link", 1.5)]))
    ros.spin_until(lambda: len(heard) >= 2, "both robots' frames")
    got = sorted(pair for each in heard for pair in pairs(each))
    assert got == [("odom", "dots1_base_link"), ("odom", "dots2_base_link")]
    assert heard[0].transforms[0].transform.translation.x == 1.5

    late = []
    wanted = sorted((f"{robot}_base_link", f"{robot}_cam{k}") for robot in publishers for k in (0, 1))
    ros.node("late").create_subscription(TFMessage, "/tf_static", late.append, LATE)
    ros.spin_until(lambda: late and sorted(pairs(late[-1])) == wanted, "the static frames")


def test_robots_that_come_later_are_found(ros, monkeypatch):
    monkeypatch.setattr(tf_relay, "LOOK", 0.05)
    relay = Relay(ros.node("relay"))
    node = ros.node("robot")
    node.create_publisher(Bool, "/other/tf", 1)
    node.create_publisher(TFMessage, "/dots7/tf", qos.TF)
    ros.spin_until(lambda: relay.robots, "the robot")
    assert relay.robots == ["/dots7"]


def test_static_frames_follow_a_root_that_is_none(ros):
    node = ros.node("robot")
    moving = node.create_publisher(TFMessage, "/dots1/tf", qos.TF)
    static = node.create_publisher(TFMessage, "/dots1/tf_static", qos.LATCHED)
    relay = Relay(ros.node("relay"), ["dots1"])
    heard = []
    node.create_subscription(TFMessage, "/tf_static", heard.append, LATE)
    static.publish(TFMessage(transforms=[transform("odom", "base_link"), transform("a", "b", NAN)]))
    ros.spin_until(lambda: heard, "static frames")
    assert pairs(heard[-1]) == [("odom", "dots1_base_link")]
    assert relay.refused == {tf_relay.NOT_FINITE: 1}
    ros.spin_until(moving.get_subscription_count, "the relay")
    moving.publish(TFMessage(transforms=[transform("map", "odom")]))
    ros.spin_until(lambda: len(heard) > 1, "the static frames again")
    assert pairs(heard[-1]) == [("dots1_odom", "dots1_base_link")]


def test_garbage_does_not_end_the_relay_and_is_told_once(ros):
    node = ros.node("robot")
    moving = node.create_publisher(TFMessage, "/dots1/tf", qos.TF)
    latched = node.create_publisher(TFMessage, "/dots1/tf_static", qos.LATCHED)
    relay = Relay(ros.node("relay"), ["/dots1/"])
    heard = []
    node.create_subscription(TFMessage, "/tf", heard.append, qos.TF)
    ros.spin_until(lambda: moving.get_subscription_count() and latched.get_subscription_count(), "the relay")
    ros.spin_until(relay.publisher.get_subscription_count, "the listener")
    told = []
    relay._node.get_logger = lambda: SimpleNamespace(warning=told.append)
    for publisher in (moving, latched):
        for _ in range(3):
            publisher.publish(b"\0\1\0\0\xff\xff\xff\x7f")
            publisher.publish(TFMessage())
    moving.publish(TFMessage(transforms=[transform("map", "base_link")]))
    ros.spin_until(lambda: heard, "what comes after it")
    assert pairs(heard[0]) == [("map", "dots1_base_link")]
    assert relay.refused[tf_relay.NOTHING] >= 3
    assert relay.refused[tf_relay.UNREADABLE] >= 3
    assert len(told) == 2


def test_it_never_relays_itself(ros):
    relay = Relay(ros.node("relay"))
    ros.node("listener").create_subscription(TFMessage, "/tf", lambda _: None, qos.TF)
    ros.spin_until(relay.publisher.get_subscription_count, "the listener")
    relay.look()
    assert relay.robots == []
    remapped = ros.node("remapped", cli_args=["--ros-args", "-r", "/tf:=/dots1/tf"])
    with pytest.raises(RobotError, match="own output"):
        Relay(remapped, ["dots1"])
    found = Relay(remapped)
    ros.spin_until(lambda: remapped.count_publishers("/dots1/tf"), "its own output")
    found.look()
    assert found.robots == []


@pytest.mark.parametrize("robot", ["", "a b", "~", "1st", "a//b", "{node}"])
def test_names_of_robots_are_checked(ros, robot):
    with pytest.raises(RobotError, match="is not a valid robot name"):
        Relay(ros.node("relay"), [robot])


def test_it_ends_in_order_and_tells_what_it_refused(ros):
    publisher = ros.node("robot").create_publisher(TFMessage, "/dots1/tf", qos.TF)
    code = "import sys; from swarmbed_robot import tf_relay; sys.exit(tf_relay.main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, "--robots", "dots1"],
        env={**os.environ, "ROS_DOMAIN_ID": str(ros.domain)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        ros.spin_until(publisher.get_subscription_count, "the relay")
        publisher.publish(TFMessage())
        line = process.stderr.readline()
        assert tf_relay.NOTHING in line
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    assert f"refused: 1 x {tf_relay.NOTHING}" in said
