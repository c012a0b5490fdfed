"""Recordings: readable by others, byte for byte what ROS would write, on the world's clock."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import py_trees
import pytest
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore
from swarmbed_core.codes import modules
from swarmbed_core.device import ImageReading
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.world import CarrierTruth
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.recording import MAP_CELL, Recorder, watch

STORE = get_typestore(Stores.ROS2_JAZZY)


def scenario(**changes):
    """Two robots, two carriers and an obstacle of each shape."""
    return Scenario.model_validate(
        {
            "version": 1,
            "title": "to be recorded",
            "time_limit": 10,
            "controller": {"name": "none"},
            "robots": [{"count": 2, "place": {"zone": "drop"}}],
            "carriers": [{"count": 2, "place": {"zone": "search"}}],
            "obstacles": [
                {"shape": "box", "size": [0.4, 0.2], "pose": [0.5, 1.5, 0.3]},
                {"shape": "cylinder", "radius": 0.1, "pose": [0.5, -1.5, 0]},
            ],
            **changes,
        }
    )


class Room:
    """A world with robots of core's memory world, and carriers that somebody pushes."""

    def __init__(self, scene, localised=False):
        placements = [Placement(item.name, item.spec, item.pose) for item in scene.robots]
        self.world = MemoryWorld(placements, scene.arena, seed=3)
        self.swarm = LocalSwarm(self.world, scene.arena.markers() if localised else None)
        for robot, item in zip(self.swarm.robots, scene.robots, strict=True):
            if localised:
                robot.onboard.place(item.pose)
        self.poses = np.array([item.pose for item in scene.carriers]).reshape(-1, 3)
        self.lifts = np.zeros(len(self.poses))
        self.placements = scene.carriers

    @property
    def names(self):
        return self.world.names

    def truth(self):
        return self.world.truth()

    def carriers(self):
        names, markers = zip(*((item.name, item.marker) for item in self.placements), strict=True)
        nobody = np.full(len(names), -1)
        return CarrierTruth(names, markers, self.poses.copy(), self.lifts.copy(), nobody)


def record(file, scene, seconds=2.0, localised=False, push=True):
    """Let robots drive in circles, and record them; return the senses at each tick."""
    room = Room(scene, localised)
    history = []
    controllers = [SimpleNamespace(doing="explore") for _ in room.swarm.robots]
    with Recorder(file, scene, room, room.swarm.robots) as recorder:
        for tick in range(round(seconds * 10) + 1):
            senses = {robot.name: robot.sense() for robot in room.swarm.robots}
            if tick == 10:
                controllers[0].doing = "pick up"
                controllers[1].root = py_trees.behaviours.Running("wait")
                controllers[1].root.tick_once()
            recorder.tick(room.world.time, room.swarm.robots, controllers)
            history.append((room.world.time, senses, room.truth().copy(), room.poses.copy()))
            for robot in room.swarm.robots:
                robot.act(Command(velocity_body=(0.4, 0.0, 0.8)))
            if push and len(room.poses):
                room.poses[0] += (0.01, 0.0, 0.02)
                room.lifts[0] = 0.005
            room.swarm.run(0.1)
    return history


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    file = tmp_path_factory.mktemp("recording") / "recording.mcap"
    scene = make_scene(scenario())
    return file, scene, record(file, scene)


def read(file):
    """Return topic -> [(nanoseconds, message)], decoded by the definitions in the file itself."""
    found = {}
    with AnyReader([file]) as reader:
        for connection, time, raw in reader.messages():
            found.setdefault(connection.topic, []).append((time, reader.deserialize(raw, connection.msgtype)))
    return found


def seconds_of(header):
    return header.stamp.sec + 1e-9 * header.stamp.nanosec


def yaw_of(q):
    return 2 * math.atan2(q.z, q.w)


def test_rosbags_reads_every_message_with_the_definitions_in_the_file(recorded):
    file, _, history = recorded
    found = read(file)
    assert set(found) == {
        "/tf", "/scene", "/carriers",
        *(f"/dots{k}/{topic}" for k in (1, 2) for topic in ("odom", "sensor/scan", "collision_map", "tree")),
    }  # fmt: skip
    assert len(found["/tf"]) == len(found["/dots1/odom"]) == len(history) == 21
    assert len(found["/dots1/collision_map"]) == 5
    assert len(found["/scene"]) == 1


def test_time_is_the_worlds_and_starts_at_0(recorded):
    file, _, history = recorded
    found = read(file)
    for topic, every in (("/tf", 1), ("/dots2/sensor/scan", 2), ("/dots2/collision_map", 5)):
        assert [time for time, _ in found[topic]] == [round(1e9 * time) for time, *_ in history[::every]]
    assert found["/scene"][0][0] == 0
    for time, sent in found["/dots1/odom"]:
        assert seconds_of(sent.header) == pytest.approx(1e-9 * time, abs=1e-12)


def test_every_message_has_the_bytes_that_ros_would_write(recorded):
    file, *_ = recorded
    with AnyReader([file]) as reader:
        kinds = set()
        for connection, _, raw in reader.messages():
            sent = STORE.deserialize_cdr(raw, connection.msgtype)
            assert bytes(STORE.serialize_cdr(sent, connection.msgtype)) == bytes(raw), connection.topic
            kinds.add(connection.msgtype)
    assert len(kinds) == 6


def test_poses_are_true_by_way_of_the_odometry(recorded):
    file, scene, history = recorded
    for (_, sent), (_, senses, truth, _) in zip(read(file)["/tf"], history, strict=True):
        assert len(sent.transforms) == 4
        for k, placement in enumerate(scene.robots):
            up, down = sent.transforms[2 * k : 2 * k + 2]
            name = placement.name
            assert (up.header.frame_id, up.child_frame_id) == ("map", f"{name}_odom")
            assert (down.header.frame_id, down.child_frame_id) == (f"{name}_odom", f"{name}_base_link")
            a, b = up.transform, down.transform
            turn = yaw_of(a.rotation)
            x = a.translation.x + math.cos(turn) * b.translation.x - math.sin(turn) * b.translation.y
            y = a.translation.y + math.sin(turn) * b.translation.x + math.cos(turn) * b.translation.y
            assert (x, y) == pytest.approx(tuple(truth[k, :2]), abs=1e-9)
            off = turn + yaw_of(b.rotation) - truth[k, 2]
            assert math.remainder(off, math.tau) == pytest.approx(0.0, abs=1e-9)
            assert (b.translation.x, b.translation.y) == tuple(senses[name].pose_odom[:2])


def test_odometry_and_scan_are_what_was_sensed(recorded):
    file, scene, history = recorded
    found = read(file)
    height = scene.robots[0].spec.ranges[0].mount_height
    counts = set()
    for (_, odom), (_, senses, *_) in zip(found["/dots1/odom"], history, strict=True):
        sensed = senses["dots1"]
        twist = odom.twist.twist
        assert (odom.header.frame_id, odom.child_frame_id) == ("dots1_odom", "dots1_base_link")
        assert (odom.pose.pose.position.x, odom.pose.pose.position.y) == tuple(sensed.pose_odom[:2])
        assert (twist.linear.x, twist.linear.y, twist.angular.z) == tuple(sensed.twist_body)
    for (_, scan), (_, senses, *_) in zip(found["/dots1/sensor/scan"], history[::2], strict=True):
        points = scan.data.view("<f4").reshape(-1, 3)
        assert [field.name for field in scan.fields] == ["x", "y", "z"]
        assert scan.is_dense
        np.testing.assert_array_equal(points[:, :2], senses["dots1"].points_body.astype(np.float32))
        assert np.all(points[:, 2] == np.float32(height))
        counts.add(len(points))
    assert len(counts) > 1  # the layout changed on the way


def test_maps_are_the_robots_own_in_percent(recorded):
    file, _, history = recorded
    by_time = {round(1e9 * time): senses for time, senses, *_ in history}
    for time, sent in read(file)["/dots2/collision_map"]:
        sensed = by_time[time]["dots2"].collision_map
        image = sensed.as_grid(MAP_CELL)
        assert sent.info.resolution == pytest.approx(MAP_CELL)
        assert sent.header.frame_id == "dots2_base_link"
        assert sent.data.reshape(sent.info.height, sent.info.width) == pytest.approx(100 * image, abs=0.5)
        assert sent.info.origin.position.x == pytest.approx(-sent.info.width * sent.info.resolution / 2)
    assert sent.data.max() > 20


def test_tree_status_is_told_when_it_changes(recorded):
    found = read(recorded[0])
    told = {k: [(time, json.loads(sent.data)) for time, sent in found[f"/dots{k}/tree"]] for k in (1, 2)}
    assert told[1] == [(0, {"doing": "explore"}), (1_000_000_000, {"doing": "pick up"})]
    assert [status.get("tree") for _, status in told[2]] == [None, [["wait", "RUNNING", 0]]]


def test_carriers_are_where_they_are(recorded):
    file, scene, history = recorded
    sent = read(file)["/carriers"]
    assert len(sent) == len(history)
    tray = scene.carriers[0].carrier
    for (_, array), (_, _, _, poses) in zip(sent, history, strict=True):
        trays = [marker for marker in array.markers if marker.ns == "trays"]
        assert len(array.markers) == 3 * len(trays) == 6
        for marker, pose in zip(trays, poses, strict=True):
            assert (marker.pose.position.x, marker.pose.position.y) == tuple(pose[:2])
            assert math.remainder(yaw_of(marker.pose.orientation) - pose[2], math.tau) == pytest.approx(0)
    assert trays[0].pose.position.z - trays[1].pose.position.z == pytest.approx(0.005)
    assert trays[1].pose.position.z > tray.clearance
    ids = [marker.text for marker in array.markers if marker.ns == "carriers"]
    assert ids == [str(item.marker) for item in scene.carriers]


def test_carriers_at_rest_are_told_once(tmp_path):
    file = tmp_path / "recording.mcap"
    record(file, make_scene(scenario()), seconds=0.5, push=False)
    assert len(read(file)["/carriers"]) == 1


def test_scene_has_zones_walls_obstacles_and_bodies(recorded):
    file, *_ = recorded
    markers = read(file)["/scene"][0][1].markers
    by_space = {}
    for marker in markers:
        by_space.setdefault(marker.ns, []).append(marker)
    assert {name: len(made) for name, made in by_space.items()} == {
        "zones": 2, "walls": 4, "obstacles": 2, "robots": 2, "noses": 2, "names": 2,
    }  # fmt: skip
    assert [marker.text for marker in by_space["names"]] == ["dots1", "dots2"]
    assert all(marker.frame_locked for marker in by_space["robots"])
    drop = by_space["zones"][1]
    assert drop.pose.position.x - drop.scale.x / 2 == pytest.approx(1.25)
    assert drop.pose.position.x + drop.scale.x / 2 == pytest.approx(2.5)
    assert len({(marker.ns, marker.id) for marker in markers}) == len(markers)


def test_localised_robots_are_where_they_believe_to_be(tmp_path):
    file = tmp_path / "recording.mcap"
    history = record(file, make_scene(scenario(carriers=[])), seconds=0.5, localised=True)
    found = read(file)
    assert "/carriers" not in found
    for (_, tf), (_, filtered), (_, senses, *_) in zip(
        found["/tf"], found["/dots1/odometry/filtered"], history, strict=True
    ):
        believed = senses["dots1"]
        pose = filtered.pose.pose
        assert filtered.header.frame_id == "map"
        assert (pose.position.x, pose.position.y) == tuple(believed.pose_map[:2])
        table = filtered.pose.covariance.reshape(6, 6)
        np.testing.assert_array_equal(table[np.ix_((0, 1, 5), (0, 1, 5))], believed.pose_covariance)
        assert np.count_nonzero(table) <= 9
        a, b = tf.transforms[0].transform, tf.transforms[1].transform
        turn = yaw_of(a.rotation)
        x = a.translation.x + math.cos(turn) * b.translation.x - math.sin(turn) * b.translation.y
        assert x == pytest.approx(believed.pose_map[0], abs=1e-9)


def test_a_crowd_is_only_poses(tmp_path):
    file = tmp_path / "recording.mcap"
    crowd = [{"count": 50, "crowd": True, "place": {"zone": "anywhere"}}]
    scene = make_scene(scenario(robots=crowd, carriers=[], obstacles=[]))
    truth = np.array([[*item.pose, 0.0, 0.0, 0.0] for item in scene.robots])
    world = SimpleNamespace(truth=lambda: truth, names=tuple(item.name for item in scene.robots))
    with Recorder(file, scene, world, []) as recorder:
        for tick in range(21):
            recorder.tick(tick / 10, [], [])
    found = read(file)
    assert set(found) == {"/scene", "/crowd"}
    assert [time for time, _ in found["/crowd"]] == [500_000_000 * k for k in range(5)]
    poses = found["/crowd"][-1][1].poses
    for sent, true in zip(poses, truth, strict=True):
        assert (sent.position.x, sent.position.y) == tuple(true[:2])
        assert math.remainder(yaw_of(sent.orientation) - true[2], math.tau) == pytest.approx(0)


def test_the_senses_of_the_dead_are_not_recorded(tmp_path):
    file = tmp_path / "recording.mcap"
    scene = make_scene(scenario(carriers=[]))
    room = Room(scene)
    robots = room.swarm.robots
    with Recorder(file, scene, room, robots) as recorder:
        for robot in robots:
            robot.sense()
        for tick in range(20):
            robots[1].sense()
            recorder.tick(room.world.time, robots, [SimpleNamespace(doing="dead")] * 2)
            room.world.step()
            room.swarm.run(0.09)
            assert tick < 20
    found = read(file)
    assert len(found["/dots1/odom"]) == 6
    assert len(found["/dots2/odom"]) == len(found["/tf"]) == 20


def test_what_ros2_bag_info_looks_at_is_there(recorded):
    file, _, history = recorded
    with file.open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == "ros2"
        summary = reader.get_summary()
        total = sum(1 for _ in reader.iter_messages())
    statistics = summary.statistics
    assert statistics.message_start_time == 0
    assert statistics.message_end_time == round(1e9 * history[-1][0])
    assert statistics.message_count == total
    assert summary.chunk_indexes
    assert all(index.compression == "zstd" and index.message_index_offsets for index in summary.chunk_indexes)
    for channel in summary.channels.values():
        assert channel.message_encoding == "cdr"
        assert channel.metadata["topic_type_hash"].startswith("RIHS01_")
        assert summary.schemas[channel.schema_id].encoding == "ros2msg"
    with AnyReader([file]) as reader:
        (scan,) = (item for item in reader.connections if item.topic == "/dots1/sensor/scan")
    (qos,) = scan.ext.offered_qos_profiles
    assert (qos.reliability.name, qos.durability.name, qos.depth) == ("BEST_EFFORT", "VOLATILE", 10)


def test_a_recording_that_breaks_off_can_be_read(tmp_path):
    file = tmp_path / "recording.mcap"
    scene = make_scene(scenario())
    room = Room(scene)

    def break_off():
        with Recorder(file, scene, room, room.swarm.robots) as recorder:
            recorder.tick(0.0, [], [])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert set(read(file)) == {"/tf", "/scene", "/carriers"}


def test_nothing_is_written_after_the_end(tmp_path):
    file = tmp_path / "recording.mcap"
    scene = make_scene(scenario())
    recorder = Recorder(file, scene, Room(scene), [])
    recorder.close()
    size = file.stat().st_size
    recorder.tick(0.0, [], [])
    recorder.close()
    assert file.stat().st_size == size


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    scene = make_scene(scenario())
    with pytest.raises(RunError, match=r"recording.mcap: cannot be written \(No such file"):
        Recorder(tmp_path / "missing" / "recording.mcap", scene, Room(scene), [])


def test_a_full_disk_is_told():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    scene = make_scene(scenario())
    recorder = Recorder(full, scene, Room(scene), [])
    with pytest.raises(RunError, match=r"/dev/full: cannot be written \(No space left"):
        recorder.close()


def test_the_same_run_gives_the_same_bytes(tmp_path):
    scene = make_scene(scenario())
    files = [tmp_path / name for name in ("one.mcap", "two.mcap")]
    for file in files:
        record(file, scene, seconds=0.5)
    assert files[0].read_bytes() == files[1].read_bytes()


class Pictures:
    """Cameras of which one always sees the same."""

    def __init__(self):
        self.watched = set()
        self.pending = []

    def watcher(self):
        return self

    def watch(self, cameras):
        self.watched = set(cameras)

    def read(self):
        pending, self.pending = self.pending, []
        return pending


def test_images_are_recorded_on_request_with_their_tags(tmp_path):
    image = np.full((480, 640), 210, np.uint8)
    image[200:280, 280:360] = np.kron(modules(7) * np.uint8(255), np.ones((10, 10), np.uint8))
    scene = make_scene(scenario())
    room = Room(scene)
    robots, pictures = room.swarm.robots, Pictures()
    robot = SimpleNamespace(
        name="dots1", onboard=SimpleNamespace(device=replace(robots[0].onboard.device, images=pictures))
    )
    watched = watch(["dots1/cam0", "dots1/cam2"], [robot])
    assert pictures.watched == {"cam0", "cam2"}
    file = tmp_path / "recording.mcap"
    programs = [SimpleNamespace(doing="nothing") for _ in robots]
    with Recorder(file, scene, room, robots, watched) as recorder:
        for k in range(5):
            pictures.pending = [ImageReading(0.1 * k - 0.03, "cam0", image) for _ in range(3)]
            recorder.tick(0.1 * k + 0.1, robots, programs)
    with AnyReader([file], default_typestore=STORE) as reader:
        kept = [c for c in reader.connections if "/image" in c.topic]
        assert [(c.topic, c.msgtype) for c in kept] == [
            ("/dots1/cam0/image_tags/compressed", "sensor_msgs/msg/CompressedImage")
        ]
        sent = [reader.deserialize(data, c.msgtype) for c, _, data in reader.messages(connections=kept)]
    assert len(sent) == 5  # the newest of each tick
    stamps = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in sent]
    assert stamps == pytest.approx([max(0.1 * k - 0.03, 0.0) for k in range(5)])
    assert sent[0].header.frame_id == "dots1_cam0_optical_frame"
    shown = cv2.imdecode(sent[0].data, cv2.IMREAD_COLOR).astype(int)
    coloured = np.ptp(shown, axis=2) > 60
    rows, columns = np.nonzero(coloured)
    assert 190 < rows.min() < 205
    assert 270 < columns.min() < 285


@pytest.mark.parametrize("asked", ["dots3/cam0", "dots1", "dots1/cam7", "/cam0", ""])
def test_images_of_nothing_are_refused(asked):
    room = Room(make_scene(scenario()))
    with pytest.raises(RunError, match="images of"):
        watch([asked], room.swarm.robots)
