"""The recorder: what others read in its files is what was sent."""

import contextlib
import errno
import os
import signal
import subprocess
import sys

import pytest
from geometry_msgs.msg import Point, Twist
from mcap.exceptions import EndOfFile
from mcap.reader import make_reader
from mcap.records import Channel, Message
from mcap.stream_reader import StreamReader
from rclpy.parameter import Parameter
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Image
from std_msgs.msg import ByteMultiArray, Float32, String
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner
from swarmbed_robot.recorder import MB, Recorder, definition, is_wanted, place

from dots_interfaces.msg import Tag, TagArray
from swarmbed_robot import qos, recorder

PROGRAM = "import sys; from swarmbed_robot import recorder; sys.exit(recorder.main())"
STORE = get_typestore(Stores.ROS2_JAZZY)
SOON = 0.05


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new" / "recording.mcap"


def contents(file):
    """Read a file as (topic, bytes, log time), and its channels by topic."""
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        found = [
            (channel.topic, message.data, message.log_time) for _, channel, message in reader.iter_messages()
        ]
        summary = reader.get_summary()
    return found, {channel.topic: channel for channel in summary.channels.values()}, summary


def heard(recording, count):
    return lambda: recording.messages >= count


@pytest.mark.parametrize(
    ("topic", "patterns", "wanted"),
    [
        ("/dots1/odom", [], True),
        ("/dots1/cam0/image", [], False),
        ("/dots1/cam0/image/compressed", [], False),
        ("/dots1/cam0/image", ["/dots1/*"], True),
        ("/dots1/odom", ["/dots1/odom"], True),
        ("/dots1/odom", ["dots1/odom"], True),
        ("/dots1/odom", ["odom"], False),
        ("/dots1/odom", ["/tf", "*/odom"], True),
        ("/dots1/odom", ["/dots[12]/(odom|tf)"], True),
        ("/dots3/odom", ["/dots[12]/(odom|tf)"], False),
        ("/dots1/odom/more", ["/dots1/odom"], False),
        ("/dots1/tf", [".*/tf"], True),
        ("/dots1/tf", ["(["], False),
        ("/dots1/_follow/_action/status", ["*"], False),
    ],
)
def test_which_topics_are_recorded(topic, patterns, wanted):
    assert is_wanted(topic, patterns) is wanted


def test_where_the_file_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(place("")).startswith("runs/recording-")
    assert place("").suffix == ".mcap"
    assert str(place("x/y.mcap")) == "x/y.mcap"
    assert str(place("x/y")).startswith("x/y/recording-")
    (tmp_path / "directory.mcap").mkdir()
    assert place("directory.mcap").parent.name == "directory.mcap"


@pytest.mark.parametrize(
    "kind",
    [
        "std_msgs/msg/String",
        "nav_msgs/msg/Odometry",
        "sensor_msgs/msg/PointCloud2",
        "visualization_msgs/msg/MarkerArray",
        "diagnostic_msgs/msg/DiagnosticArray",
        "rcl_interfaces/msg/ParameterEvent",
    ],
)
def test_definitions_are_whole(kind):
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(definition(kind), kind))
    assert store.hash_rihs01(kind) == STORE.hash_rihs01(kind)


@pytest.mark.parametrize("kind", ["nonsense/msg/Nothing", "std_msgs/msg/Nothing", "std_msgs/String", ""])
def test_types_that_are_not_installed_have_no_definition(kind):
    assert definition(kind) is None


def test_others_read_what_was_sent(ros, file):
    node = ros.node("robot")
    reliable = node.create_publisher(Twist, "/dots1/cmd_vel", qos.OUTPUT)
    lossy = node.create_publisher(Float32, "/dots1/sensor/compass", qos.SENSOR)
    latched = node.create_publisher(String, "/dots1/tree", qos.LATCHED)
    tags = node.create_publisher(TagArray, "/dots1/cam0_tags", qos.OUTPUT)
    image = node.create_publisher(Image, "/dots1/cam0/image", qos.OUTPUT)
    latched.publish(String(data="before"))
    listener = ros.node("recorder")
    recording = Recorder(listener, file, rediscover=SOON)
    publishers = (reliable, lossy, latched, tags)
    ros.spin_until(lambda: all(each.get_subscription_count() for each in publishers), "the recorder")
    twist = Twist()
    twist.linear.x = 1.5
    seen = TagArray(data=[Tag(id=7, alignment=0.5, points=[Point(x=float(k)) for k in range(4)])])
    before = listener.get_clock().now().nanoseconds
    reliable.publish(twist)
    lossy.publish(Float32(data=2.5))
    tags.publish(seen)
    topics = {each.topic_name for each in publishers}
    ros.spin_until(
        lambda: topics <= {topic.name for topic in recording._topics.values() if topic.count}, "all"
    )
    after = listener.get_clock().now().nanoseconds
    assert not image.get_subscription_count()
    hashes = {
        each.topic_name: str(node.get_publishers_info_by_topic(each.topic_name)[0].topic_type_hash)
        for each in publishers
    }
    recording.close()
    recording.close()

    found, channels, summary = contents(file)
    assert summary.statistics.message_count == recording.messages
    sent = {topic: data for topic, data, _ in found}
    assert deserialize_message(sent["/dots1/cmd_vel"], Twist) == twist
    assert deserialize_message(sent["/dots1/cam0_tags"], TagArray) == seen
    assert deserialize_message(sent["/dots1/tree"], String).data == "before"
    assert all(before <= time <= after for topic, _, time in found if topic == "/dots1/cmd_vel")
    for topic, code in hashes.items():
        assert channels[topic].metadata["topic_type_hash"] == code
        assert code.startswith("RIHS01_")

    with AnyReader([file]) as reader:
        offered = {each.topic: each.ext.offered_qos_profiles[0] for each in reader.connections}
        read = {each.topic: reader.deserialize(data, each.msgtype) for each, _, data in reader.messages()}
        for topic in topics:
            kind = next(each.msgtype for each in reader.connections if each.topic == topic)
            assert reader.typestore.hash_rihs01(kind) == hashes[topic]
    assert read["/dots1/cmd_vel"].linear.x == 1.5
    assert read["/dots1/cam0_tags"].data[0].points[3].x == 3.0
    assert read["/dots1/sensor/compass"].data == 2.5
    assert offered["/dots1/sensor/compass"].reliability.name == "BEST_EFFORT"
    assert offered["/dots1/cmd_vel"].reliability.name == "RELIABLE"
    assert offered["/dots1/cmd_vel"].durability.name == "VOLATILE"
    assert offered["/dots1/tree"].durability.name == "TRANSIENT_LOCAL"


def test_topics_and_publishers_that_come_later(ros, file):
    node = ros.node("robot")
    recording = Recorder(ros.node("recorder"), file, ["/a", "/b"], rediscover=SOON)
    assert recording._topics == {}
    first = node.create_publisher(String, "/a", qos.LATCHED)
    ros.spin_until(first.get_subscription_count, "the recorder")
    # Neither would be heard with what the first one offers.
    second = node.create_publisher(String, "/a", qos.SENSOR)
    third = node.create_publisher(String, "/b", qos.OUTPUT)
    ros.spin_until(second.get_subscription_count, "the recorder for the second")
    ros.spin_until(third.get_subscription_count, "the recorder for the third")
    for publisher in (first, second, third):
        publisher.publish(String(data="x"))
    ros.spin_until(heard(recording, 3), "three messages")
    recording.close()
    found, channels, _ = contents(file)
    assert sorted(topic for topic, _, _ in found) == ["/a", "/a", "/b"]
    assert channels["/a"].metadata["offered_qos_profiles"].count("history") == 2


@pytest.mark.parametrize("fresh", [True, False])
def test_it_stops_before_the_file_is_too_large(ros, file, fresh):
    node = ros.node("robot")
    noise = os.urandom(20_000)
    publisher = node.create_publisher(ByteMultiArray, "/noise", qos.TF)
    limit = int(1.3 * MB if fresh else 0.3 * MB)
    recording = Recorder(ros.node("recorder"), file, ["/noise"], max_size=limit)
    ros.spin_until(publisher.get_subscription_count, "the recorder")
    start = serialize_message(ByteMultiArray())[:-4] + len(noise).to_bytes(4, "little")
    count = 0
    while recording.ended is None:
        publisher.publish(start + (os.urandom(len(noise)) if fresh else noise))
        count += 1
        ros.spin_until(lambda count=count: recording.ended or recording.messages == count, "the message")
    assert ".3 MB" in recording.ended
    recording.close()
    assert 0.75 * limit < file.stat().st_size <= limit
    assert len(contents(file)[0]) == count - 1


def test_many_small_topics_stay_below_the_limit_too(ros, file):
    node = ros.node("robot")
    publishers = [node.create_publisher(Float32, f"/x{k}", qos.TF) for k in range(20)]
    limit = 40_000
    recording = Recorder(ros.node("recorder"), file, ["/x*"], max_size=limit, rediscover=SOON)
    ros.spin_until(lambda: all(each.get_subscription_count() for each in publishers), "the recorder")
    count = 0
    while recording.ended is None:
        for publisher in publishers:
            publisher.publish(Float32(data=1.0))
        count += 20
        ros.spin_until(lambda count=count: recording.ended or recording.messages == count, "the messages")
    recording.close()
    assert recording.messages > 20
    assert file.stat().st_size <= limit
    assert len(contents(file)[0]) == recording.messages


def test_it_is_stamped_and_ends_by_the_simulations_clock(ros, file):
    node = ros.node("world")
    clock = node.create_publisher(Clock, "/clock", qos.TF)
    publisher = node.create_publisher(Float32, "/x", qos.LATCHED)
    publisher.publish(Float32(data=1.0))
    listener = ros.node("recorder", parameter_overrides=[Parameter("use_sim_time", value=True)])
    recording = Recorder(listener, file, ["/x"], max_duration=10.0, rediscover=SOON)

    def until(second):
        now = Clock()
        now.clock.sec = second
        clock.publish(now)
        ros.spin_until(lambda: listener.get_clock().now().nanoseconds == second * 10**9, "the time")

    ros.spin_until(lambda: clock.get_subscription_count() and recording._early, "what comes before the time")
    assert recording.messages == 0
    until(100)
    publisher.publish(Float32(data=1.5))
    ros.spin_until(heard(recording, 2), "the message from before, and the next")
    until(105)
    publisher.publish(Float32(data=2.0))
    ros.spin_until(heard(recording, 3), "the message")
    until(111)
    ros.spin_until(lambda: recording.ended, "the end")
    assert "10 s" in recording.ended
    recording.close()
    assert [time for _, _, time in contents(file)[0]] == [100 * 10**9] * 2 + [105 * 10**9]


def test_a_type_that_is_not_installed_is_left_out(ros, file, monkeypatch):
    node = ros.node("robot")
    publisher = node.create_publisher(Float32, "/x", qos.OUTPUT)
    other = node.create_publisher(String, "/y", qos.OUTPUT)
    real = recorder.importlib.import_module

    def without(name):
        if name == "std_msgs.msg":
            raise ModuleNotFoundError(name)
        return real(name)

    with monkeypatch.context() as patch:
        patch.setattr(recorder.importlib, "import_module", without)
        recording = Recorder(ros.node("recorder"), file, ["/x"], rediscover=SOON)
        ros.spin_until(lambda: recording._unusable == {"std_msgs/msg/Float32"}, "the refusal")
    recording._patterns = ("/x", "/y")
    ros.spin_until(other.get_subscription_count, "the other topic")
    assert not publisher.get_subscription_count()
    recording.close()


def test_a_file_that_cannot_be_written(ros, tmp_path):
    node = ros.node("recorder")
    there = tmp_path / "there.mcap"
    there.write_text("precious")
    with pytest.raises(RobotError, match=r"there\.mcap: already exists"):
        Recorder(node, there)
    assert there.read_text() == "precious"
    for bad in (there / "x.mcap", tmp_path / ("x" * 300 + ".mcap")):
        with pytest.raises(RobotError, match="cannot be written"):
            Recorder(node, bad)


def test_a_full_disk_ends_it_with_one_line(domain, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    real = Recorder._take

    def full(self, topic, data):
        def fail(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(self._writer, "add_message", fail)
        real(self, topic, data)

    monkeypatch.setattr(Recorder, "_take", full)
    other = Spinner(domain=domain)
    try:
        publisher = other.node("robot").create_publisher(String, "/x", qos.LATCHED)
        publisher.publish(String(data="x"))
        said = ["--out", str(tmp_path), "--topics", "/x", "--rediscover", "0.05"]
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            status = recorder.run("recorder", None, recorder.OPTIONS, recorder.start, said)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    finally:
        other.close()
    assert status == 2
    assert "cannot be written (No space left on device)" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_with_a_whole_file(ros, file, number):
    publisher = ros.node("robot").create_publisher(String, "/x", qos.LATCHED)
    publisher.publish(String(data="x"))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--out", str(file), "--topics", "/x", "/y", "--rediscover", "0.05"],
        env={**os.environ, "ROS_DOMAIN_ID": str(ros.domain)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        ros.spin_until(publisher.get_subscription_count, "the recorder")
        assert publisher.wait_for_all_acked()
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0
    found = contents(file)[0]
    assert f"{len(found)} messages" in said
    assert " MB written to" in said


def kept_in(file):
    """Return the topics of the messages in a file that is not finished."""
    channels, topics = {}, []
    with file.open("rb") as stream, contextlib.suppress(EndOfFile):
        for record in StreamReader(stream).records:
            if isinstance(record, Channel):
                channels[record.id] = record.topic
            if isinstance(record, Message):
                topics.append(channels[record.channel_id])
    return topics


def test_what_was_recorded_is_soon_on_the_disk(ros, file, monkeypatch):
    """Should the process be killed, `swarmbed mend` makes a whole file of it."""
    monkeypatch.setattr(recorder, "KEPT", SOON)
    publisher = ros.node("robot").create_publisher(String, "/x", qos.LATCHED)
    publisher.publish(String(data="x"))
    recording = Recorder(ros.node("recorder"), file, ["/x"], rediscover=SOON)
    ros.spin_until(lambda: kept_in(file) == ["/x"], "the message on the disk")
    recording.close()
    assert len(contents(file)[0]) == 1


def test_an_unwritable_file_is_one_line_and_status_2():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--out", "/proc/no/x.mcap"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "/proc/no/x.mcap: cannot be written" in done.stderr
