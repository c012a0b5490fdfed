"""The topics of a robot: the contract's names, types, units, rates and frames, seen by an outsider."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PointStamped, Twist
from nav_msgs.msg import OccupancyGrid, Odometry
from nav_msgs.msg import Path as PathMsg
from rclpy.qos import ReliabilityPolicy, qos_profile_sensor_data, qos_profile_system_default
from sensor_msgs.msg import BatteryState, Imu, PointCloud2, PointField
from std_msgs.msg import Bool, Float32, Float64, Float64MultiArray, Int32MultiArray, String
from swarmbed_core.control import Mode
from swarmbed_core.device import SensorReading, Zone
from swarmbed_core.robot import Command
from swarmbed_robot.api import DOING_MAX, OPTIONS, OWNED_SECONDS, REFUSED_SECONDS

from swarmbed_interfaces import msg
from swarmbed_robot import qos
from tf2_msgs.msg import TFMessage

DEFAULTS = {option.name: option.default for option in OPTIONS}


def seconds(stamp):
    return stamp.sec + stamp.nanosec * 1e-9


def ranges_of(cloud):
    """What DOTS controllers do with a scan: sensor number by angle, distance from the robot's centre."""
    found = {}
    for i in range(cloud.width):
        x, y, z = struct.unpack("fff", bytes(cloud.data[i * cloud.point_step : i * cloud.point_step + 12]))
        angle = math.atan2(y, x) % (2 * math.pi)
        found[round(angle / (math.pi / 8))] = (math.hypot(x, y), z)
    return found


def twist(x=0.0, y=0.0, turn=0.0):
    made = Twist()
    made.linear.x, made.linear.y, made.angular.z = x, y, turn
    return made


def test_scan_is_the_tof_returns_as_the_dots_robots_send_them(make_rig):
    dots = make_rig(arena="dots_arena")
    got = dots.listen("sensor/scan", PointCloud2, qos_profile_sensor_data)
    dots.run(1.0)
    assert len(got) == pytest.approx(50, abs=2)
    scan = got[-1]
    assert scan.header.frame_id == "dots1_base_link"
    assert (scan.height, scan.point_step, scan.row_step) == (1, 12, 12 * scan.width)
    assert [(f.name, f.offset, f.datatype, f.count) for f in scan.fields] == [
        (axis, 4 * i, PointField.FLOAT32, 1) for i, axis in enumerate("xyz")
    ]
    found = ranges_of(scan)
    _, points = dots.onboard.sweep("tof")
    there = np.flatnonzero(np.isfinite(points[:, 0]))
    assert sorted(found) == there.tolist()
    for number in there:
        assert found[number][0] == pytest.approx(math.hypot(*points[number]), abs=1e-6)
    stamps = [seconds(scan.header.stamp) for scan in got]
    assert np.diff(stamps) == pytest.approx(0.02, abs=1e-6)


class Lasting:
    """A sensor that gives the same values at all times; `rig` is set later."""

    def __init__(self, *values):
        self.values, self.rig = np.array(values), None

    def read(self):
        return SensorReading(self.rig.world.time, self.values)


def test_readings_of_other_sensors_are_published_as_they_are(make_rig):
    ground, front = Lasting(0.0, 0.5, 1.0), Lasting(*np.arange(10.0).reshape(2, 5))
    rig = make_rig("epuck2", device=lambda made: replace(made, ground=ground, spots={"front": front}))
    ground.rig = front.rig = rig
    grounds = rig.listen("sensor/ground", Float64MultiArray)
    spots = rig.listen("sensor/spots/front", Float64MultiArray)
    rig.run(0.5)
    assert len(grounds) == pytest.approx(5, abs=1)
    assert grounds[-1].data.tolist() == [0.0, 0.5, 1.0]
    told = [(dim.label, dim.size, dim.stride) for dim in spots[-1].layout.dim]
    assert told == [("row", 2, 10), ("column", 5, 5)]
    assert spots[-1].data.tolist() == list(range(10))
    assert "sensor/position" not in rig.api.outputs


def test_a_position_is_a_point_in_map(make_rig):
    position = Lasting(1.5, -2.0)
    rig = make_rig("pioneer3dx", device=lambda made: replace(made, position=position))
    position.rig = rig
    got = rig.listen("sensor/position", PointStamped)
    rig.run(0.3)
    assert got[-1].header.frame_id == "map"
    assert (got[-1].point.x, got[-1].point.y) == (1.5, -2.0)


def test_scan_and_dropzone_are_best_effort_and_all_else_suits_every_subscriber(dots):
    node = dots.outsider
    for topic, output in dots.api.outputs.items():
        [info] = node.get_publishers_info_by_topic(f"/dots1/{topic}")
        best_effort = info.qos_profile.reliability is ReliabilityPolicy.BEST_EFFORT
        assert best_effort == (topic in {"sensor/scan", "sensor/laser/tof", "sensor/dropzone"}), topic
        assert output.publisher.topic_name == f"/dots1/{topic}"


@pytest.mark.parametrize("profile", [qos_profile_sensor_data, qos_profile_system_default, 10])
def test_inputs_take_from_every_publisher(dots, profile):
    publisher = dots.publisher("cmd_vel", Twist, profile)
    dots.say(publisher, twist(0.3))
    dots.run(0.3)
    assert dots.truth[3] == pytest.approx(0.3, abs=0.03)


def test_cmd_vel_drives_sideways_too_and_runs_out_after_half_a_second(dots):
    publisher = dots.publisher("cmd_vel", Twist)
    for _ in range(10):
        dots.say(publisher, twist(0.2, 0.3, 0.5))
        dots.run(0.1)
    assert dots.truth[3:] == pytest.approx([0.2, 0.3, 0.5], abs=0.04)
    dots.run(0.35)
    assert math.hypot(*dots.truth[3:5]) > 0.3
    dots.run(0.4)
    assert dots.truth[3:] == pytest.approx([0, 0, 0], abs=0.01)


def test_odom_starts_at_zero_and_follows_the_body(dots):
    got = dots.listen("odom", Odometry, qos_profile_system_default)
    dots.run(0.2)
    first = got[0]
    assert (first.header.frame_id, first.child_frame_id) == ("odom", "dots1_base_link")
    assert first.pose.pose.position.x == pytest.approx(0.0, abs=1e-3)
    publisher = dots.publisher("cmd_vel", Twist)
    for _ in range(20):
        dots.say(publisher, twist(0.5, 0.0, 0.4))
        dots.run(0.1)
    last = got[-1]
    yaw = 2 * math.atan2(last.pose.pose.orientation.z, last.pose.pose.orientation.w)
    place = [last.pose.pose.position.x, last.pose.pose.position.y, yaw]
    assert place == pytest.approx(dots.truth[:3], abs=0.05)
    assert last.twist.twist.linear.x == pytest.approx(0.5, abs=0.05)
    assert last.twist.twist.angular.z == pytest.approx(0.4, abs=0.05)
    assert seconds(last.header.stamp) == pytest.approx(dots.world.time, abs=0.03)


def test_the_filter_speaks_in_odom_until_the_robot_knows_its_place(make_rig):
    dots = make_rig(arena="dots_arena", localised=False)
    got = dots.listen("odometry/filtered", Odometry)
    odom = dots.listen("odom", Odometry)
    publisher = dots.publisher("cmd_vel", Twist)
    for _ in range(10):
        dots.say(publisher, twist(0.5, 0.0, 0.4))
        dots.run(0.1)
    assert len(got) == pytest.approx(50, abs=2)
    assert {(each.header.frame_id, each.child_frame_id) for each in got} == {("odom", "dots1_base_link")}
    assert got[-1] == odom[-1]
    dots.onboard.place((1.0, 0.5, 0.0))
    dots.run(0.5)
    assert (got[-1].header.frame_id, got[-1].child_frame_id) == ("map", "dots1_base_link")
    assert got[-1].pose.pose.position.x > 0.9
    assert odom[-1].header.frame_id == "odom"


def test_odometry_says_how_uncertain_it_is(dots):
    odom, filtered = dots.listen("odom", Odometry), dots.listen("odometry/filtered", Odometry)
    publisher = dots.publisher("cmd_vel", Twist)
    for _ in range(20):
        dots.say(publisher, twist(0.5, 0.1, 0.4))
        dots.run(0.1)
    dots.onboard.place((0.0, 0.0, 0.0))
    dots.run(0.1)
    for got in (odom[0], odom[-1], filtered[0], filtered[-1]):
        for table in (got.pose.covariance, got.twist.covariance):
            covariance = np.array(table).reshape(6, 6)
            assert (np.diag(covariance) > 0).all()
            assert np.linalg.eigvalsh(covariance).min() > 0
            assert np.allclose(covariance, covariance.T)
    # Of nothing to some centimetres; in `map` it is as good as the placing.
    first, last = (
        np.sqrt(np.diag(np.array(each.pose.covariance).reshape(6, 6))) for each in (odom[0], odom[-1])
    )
    assert first[[0, 1, 5]].max() < 0.002
    assert 0.003 < last[[0, 1]].max() < 0.05
    assert 0.008 < last[5] < 0.03


def test_imu_compass_and_zone(make_rig):
    dots = make_rig(arena="dots_arena")
    imu = dots.listen("sensor/imu", Imu)
    compass = dots.listen("sensor/compass", Float32, qos_profile_sensor_data)
    zone = dots.listen("sensor/zone", msg.Zone)
    publisher = dots.publisher("cmd_vel", Twist)
    for _ in range(10):
        dots.say(publisher, twist(turn=1.0))
        dots.run(0.1)
    assert len(imu) == pytest.approx(100, abs=3)
    assert imu[-1].header.frame_id == "dots1_imu_link"
    assert imu[-1].angular_velocity.z == pytest.approx(1.0, abs=0.1)
    assert imu[-1].linear_acceleration.z == pytest.approx(9.8, abs=0.2)
    assert imu[-1].orientation_covariance[0] == -1.0
    assert compass[-1].data == pytest.approx(dots.truth[2], abs=0.06)
    assert zone[-1].zone in {msg.Zone.NEITHER, msg.Zone.SEARCH, msg.Zone.DROP}
    assert zone[-1].zone == int(dots.onboard.zone)


def test_dropzone_tells_whether_the_robot_is_in_the_drop_zone(dots, monkeypatch):
    zone, got = [Zone.SEARCH], dots.listen("sensor/dropzone", Bool, qos_profile_sensor_data)
    device = replace(dots.onboard.device, zone=SimpleNamespace(read=lambda: zone[0]))
    monkeypatch.setattr(dots.onboard, "device", device)
    for zone[0] in (Zone.SEARCH, Zone.DROP, Zone.NEITHER):
        del got[:]
        dots.run(1.0)
        assert len(got) == pytest.approx(10, abs=1)
        assert {each.data for each in got} == {zone[0] is Zone.DROP}


def test_lifter_takes_about_a_second_and_may_be_repeated(dots):
    heights = dots.listen("lifter_height", Float32)
    publisher = dots.publisher("lifter", Bool)
    for up, height in ((True, 0.197), (False, 0.145)):
        for _ in range(7):
            dots.say(publisher, Bool(data=up))
            dots.run(0.1)
        assert abs(heights[-1].data - height) > 0.005
        for _ in range(6):
            dots.say(publisher, Bool(data=up))
            dots.run(0.1)
        assert heights[-1].data == pytest.approx(height, abs=0.002)


def test_leds_show_what_was_sent(dots):
    colours = [0x0000FF, 0x00FF00, 0xFF0000, *range(13)]
    dots.say(dots.publisher("led", Int32MultiArray), Int32MultiArray(data=colours))
    assert list(dots.onboard.device.leds.bar.values) == colours


def test_battery_is_in_ros_units(dots):
    got = dots.listen("battery_state", BatteryState, qos_profile_sensor_data)
    dots.run(2.1)
    state = got[-1]
    assert len(got) in {2, 3}
    assert state.voltage == pytest.approx(sum(state.cell_voltage), abs=0.05)
    assert len(state.cell_voltage) == 2
    assert state.current < 0
    assert 0.5 < state.percentage <= 1.0
    assert state.present
    assert state.power_supply_status == BatteryState.POWER_SUPPLY_STATUS_DISCHARGING


def test_a_batterys_capacity_stays_and_its_charge_is_a_share_of_it(dots):
    got = dots.listen("battery_state", BatteryState, qos_profile_sensor_data)
    dots.run(1.1)
    # Half empty: other voltages, the same capacity.
    model = dots.onboard.device.power
    reading = model.read()
    half = reading._replace(cell_voltages=(2.3, 2.3))
    dots.onboard.device = replace(dots.onboard.device, power=SimpleNamespace(read=lambda: half))
    dots.run(2.1)
    full, low = got[0], got[-1]
    assert low.percentage < full.percentage - 0.2
    for state in (full, low):
        assert state.capacity == state.design_capacity == full.capacity
        assert state.charge == pytest.approx(state.percentage * state.capacity, rel=1e-5)
    # Table I: cells of 23 Ah.
    assert full.capacity == pytest.approx(23.0, rel=0.1)


def test_reflect_echoes(dots):
    got = dots.listen("reflect_out", Float64)
    publisher = dots.publisher("reflect_in", Float64)
    for value in (1.5, -1e300, math.inf):
        dots.say(publisher, Float64(data=value))
    dots.ros.spin_until(lambda: len(got) == 3, "three echoes")
    assert [echo.data for echo in got] == [1.5, -1e300, math.inf]


def test_power_en_is_a_watchdog_that_must_be_repeated(dots):
    power, drive = dots.publisher("power_en", Bool), dots.publisher("cmd_vel", Twist)
    timeout = dots.onboard.device.spec.control.power_timeout
    dots.say(power, Bool(data=True))
    for _ in range(round(timeout / 0.1) - 2):
        dots.say(drive, twist(0.3))
        dots.run(0.1)
    assert dots.truth[3] == pytest.approx(0.3, abs=0.03)
    for _ in range(5):
        dots.say(drive, twist(0.3))
        dots.run(0.1)
    assert dots.truth[3] == pytest.approx(0.0, abs=0.01)
    assert dots.refused["power.expired"] == 1
    for _ in range(5):
        dots.say(power, Bool(data=True))
        dots.say(drive, twist(0.3))
        dots.run(0.1)
    assert dots.truth[3] == pytest.approx(0.3, abs=0.03)


def test_motor_en_lets_the_wheels_stand(dots):
    motors, drive = dots.publisher("motor_en", Bool), dots.publisher("cmd_vel", Twist)
    dots.say(motors, Bool(data=False))
    for on in (False, True):
        dots.say(motors, Bool(data=on))
        for _ in range(5):
            dots.say(drive, twist(0.3))
            dots.run(0.1)
        assert dots.truth[3] == pytest.approx(0.3 if on else 0.0, abs=0.03)


def test_collision_map_has_what_is_around(make_rig):
    dots = make_rig(arena="dots_arena")
    got = dots.listen("collision_map", OccupancyGrid)
    dots.onboard.collision_map.update(0.0, (0.0, 0.0, 0.0), [(0.5, 0.2)])
    dots.run(0.3)
    grid = got[-1]
    assert grid.header.frame_id == "dots1_base_link"
    assert grid.info.width == grid.info.height
    cells = np.array(grid.data).reshape(grid.info.height, grid.info.width)
    assert cells.min() >= 0
    assert cells.max() <= 100
    column = int((0.5 - grid.info.origin.position.x) / grid.info.resolution)
    row = int((0.2 - grid.info.origin.position.y) / grid.info.resolution)
    assert cells[row - 1 : row + 2, column - 1 : column + 2].max() > 0
    assert cells.shape == dots.onboard.collision_map.as_grid(DEFAULTS["map_cell"]).shape
    expected = np.rint(100 * dots.onboard.collision_map.as_grid(DEFAULTS["map_cell"]))
    assert np.abs(cells - expected).max() <= 10


def test_a_followed_path_is_shown(dots):
    got = dots.listen("path", PathMsg, qos.LATCHED)
    command = dots.publisher("command", msg.Command, qos.COMMAND)
    path = msg.Path(frame="base_link", waypoints=[msg.Waypoint(x=0.3), msg.Waypoint(x=0.5, y=0.2, yaw=1.0)])
    dots.say(command, msg.Command(time=math.nan, path=[path]))
    dots.run(0.1)
    dots.ros.spin_until(lambda: got, "the path")
    places = np.array([(point.pose.position.x, point.pose.position.y) for point in got[-1].poses])
    assert places == pytest.approx(np.array([(0.3, 0.0), (0.5, 0.2)]), abs=0.01)
    assert dots.onboard.motion.mode is Mode.PATH


def test_latched_topics_reach_who_comes_late(dots):
    info, description, static = [], [], []
    node = dots.outsider
    node.create_subscription(msg.RobotInfo, "/dots1/info", info.append, qos.LATCHED)
    node.create_subscription(String, "/dots1/robot_description", description.append, qos.LATCHED)
    node.create_subscription(TFMessage, "/dots1/tf_static", static.append, qos.LATCHED)
    dots.ros.spin_until(lambda: info and description and static, "latched topics")
    assert info[0].name == "dots1"
    assert 'link name="dots1_base_link"' in description[0].data
    frames = {t.child_frame_id: t for t in static[0].transforms}
    assert {"dots1_cam0_link", "dots1_cam4_link", "dots1_imu_link", "dots1_tof15"} <= frames.keys()
    assert frames["dots1_cam0_link"].header.frame_id == "dots1_base_link"
    assert frames["dots1_cam4_link"].header.frame_id == "dots1_lifter_link"


def test_own_tree_is_whole(dots):
    got = dots.listen("tf", TFMessage, qos.TF)
    dots.run(0.2)
    pairs = {(t.header.frame_id, t.child_frame_id) for t in got[-1].transforms}
    assert pairs == {("odom", "dots1_base_link"), ("dots1_base_link", "dots1_lifter_link")}
    dots.onboard.act(Command(lift=True))
    dots.run(1.5)
    [lifter] = [t for t in got[-1].transforms if t.child_frame_id == "dots1_lifter_link"]
    assert lifter.transform.translation.z == pytest.approx(0.197, abs=0.002)


def test_a_localised_robot_has_map_as_its_root(make_rig):
    dots = make_rig(arena="dots_arena")
    got = dots.listen("tf", TFMessage, qos.TF)
    dots.onboard.place((1.0, 0.5, 0.3))
    dots.run(0.2)
    frames = {(t.header.frame_id, t.child_frame_id): t.transform for sent in got for t in sent.transforms}
    place = frames["map", "odom"]
    assert (place.translation.x, place.translation.y) == pytest.approx((1.0, 0.5), abs=0.05)


BIG = b"x" * 99_999
GARBAGE = [
    ("cmd_vel", Twist, lambda: twist(math.nan), "command.not_finite"),
    ("cmd_vel", Twist, lambda: twist(0.0, math.inf), "command.not_finite"),
    ("cmd_vel", Twist, lambda: twist(turn=-math.inf), "command.not_finite"),
    ("led", Int32MultiArray, Int32MultiArray, "led"),
    ("led", Int32MultiArray, lambda: Int32MultiArray(data=[1] * 300_000), "led"),
    ("led", Int32MultiArray, lambda: Int32MultiArray(data=[-1] * 16), "led"),
    ("command", msg.Command, lambda: msg.Command(velocity_body=[1.0]), "input.command"),
    ("command", msg.Command, lambda: msg.Command(velocity_body=[math.nan] * 3), "command"),
    ("command", msg.Command, lambda: msg.Command(velocity_body=[0.0] * 500_000), "input.command"),
    ("command", msg.Command, lambda: msg.Command(lift=7), "input.command"),
    ("command", msg.Command, lambda: msg.Command(run=9), "input.command"),
    ("command", msg.Command, lambda: msg.Command(path=[msg.Path()]), "input.command"),
    (
        "command",
        msg.Command,
        lambda: msg.Command(path=[msg.Path(frame="moon", waypoints=[msg.Waypoint(x=1.0)])]),
        "input.command",
    ),
    (
        "command",
        msg.Command,
        lambda: msg.Command(path=[msg.Path(frame="odom", waypoints=[msg.Waypoint(x=math.nan)])]),
        "input.command",
    ),
    (
        "command",
        msg.Command,
        lambda: msg.Command(path=[msg.Path(frame="odom", waypoints=[msg.Waypoint()] * 20_000)]),
        "input.command",
    ),
    ("radio/send", msg.RadioPayload, msg.RadioPayload, "command.send"),
    (
        "radio/send",
        msg.RadioPayload,
        lambda: msg.RadioPayload(radio="ble", payload=b"x" * 99_999),
        "command.send",
    ),
]


@pytest.mark.parametrize(("topic", "kind", "make", "reason"), GARBAGE)
def test_garbage_is_refused_counted_and_survived(dots, topic, kind, make, reason):
    dots.run(0.05)
    sent = make()
    dots.say(dots.publisher(topic, kind), sent)
    dots.run(0.2)
    counted = [name for name in dots.refused if name.startswith(reason)]
    assert counted, dots.refused
    assert dots.truth == pytest.approx([0] * 6, abs=1e-3)
    dots.say(dots.publisher("cmd_vel", Twist), twist(0.3))
    dots.run(0.3)
    assert dots.truth[3] == pytest.approx(0.3, abs=0.03)


def test_diagnostics_tell_rates_refusals_watchdogs_and_battery(dots):
    dots.listen("odom", Odometry)
    dots.api.diagnostics()
    dots.say(dots.publisher("cmd_vel", Twist), twist(math.nan))
    dots.run(1.1)
    statuses = {status.name: status for status in dots.api.diagnostics()}
    assert set(statuses) == {f"dots1: {part}" for part in ("rates", "refused", "watchdogs", "battery")}
    rates = {item.key: item.value for item in statuses["dots1: rates"].values}
    assert float(rates["odom"].removesuffix(" Hz")) > 0
    assert "in: cmd_vel" in rates
    refused = {item.key: item.value for item in statuses["dots1: refused"].values}
    [(reason, said)] = refused.items()
    assert reason.startswith("command.")
    assert said.startswith("1 times")
    assert statuses["dots1: refused"].level == statuses["dots1: refused"].WARN
    assert statuses["dots1: watchdogs"].level == statuses["dots1: watchdogs"].OK


def test_nothing_is_made_that_nobody_wants(dots):
    made = []
    for output in dots.api.outputs.values():
        output.publisher = type(
            "Never", (), {"publish": made.append, "get_subscription_count": lambda _: 0}
        )()
    path = msg.Path(frame="odom", waypoints=[msg.Waypoint(x=0.1 * k) for k in range(1, 9)])
    dots.say(dots.publisher("command", msg.Command, qos.COMMAND), msg.Command(time=math.nan, path=[path]))
    dots.api.outputs["senses"].wanted = False
    dots.run(0.1)
    assert dots.onboard.motion.mode is Mode.PATH
    dots.run(0.4)
    dots.api.sense(dots.world.time)
    assert made == []
    assert dots.onboard.on_image == []


# Who owns a robot


class Program:
    """Answers what the robot has sensed, as a program does."""

    def __init__(self, rig):
        self.rig = rig
        self.publisher = rig.publisher("command", msg.Command, qos.COMMAND)

    def answer(self, doing="work", **fields):
        now = self.rig.world.time
        self.rig.api.sense(now, anyway=True)
        self.rig.say(self.publisher, msg.Command(time=now, doing=doing, **fields))
        return now


OTHERS = [
    ("cmd_vel", Twist, twist(0.0, 0.5)),
    ("power_en", Bool, Bool(data=False)),
    ("motor_en", Bool, Bool(data=False)),
    ("lifter", Bool, Bool(data=True)),
    ("carrying", Bool, Bool(data=True)),
    ("led", Int32MultiArray, Int32MultiArray(data=[255] * 16)),
    ("radio/send", msg.RadioPayload, msg.RadioPayload(radio="ble", payload=b"x")),
]


def test_a_robot_with_a_program_takes_nothing_from_others_until_the_program_is_silent(dots):
    publishers = [(dots.publisher(topic, kind), topic, sent) for topic, kind, sent in OTHERS]
    program = Program(dots)
    dots.run(0.1)
    program.answer(velocity_body=[0.2, 0.0, 0.0])
    assert dots.api.owned
    for publisher, topic, sent in publishers:
        dots.say(publisher, sent)
        assert dots.refused[f"input.{topic}"] == 1
        assert (
            f"{topic} is rejected while a program drives dots1"
            in dots.onboard.health.latest[f"input.{topic}"]
        )
    dots.run(0.1)
    assert dots.onboard.drives_on
    assert dots.truth[3] > 0.05
    assert abs(dots.truth[4]) < 0.05
    dots.run(OWNED_SECONDS - 0.2)
    assert dots.api.owned
    dots.run(0.3)
    assert not dots.api.owned
    lifter = next(publisher for publisher, topic, _ in publishers if topic == "lifter")
    dots.say(lifter, Bool(data=True))
    assert dots.refused["input.lifter"] == 1
    dots.run(0.3)
    assert dots.onboard.lifter_height > 0.15


@pytest.mark.parametrize("topic", ["power_en", "motor_en"])
@pytest.mark.parametrize("on", [False, True])
def test_a_program_that_comes_finds_the_drives_on(dots, topic, on):
    dots.say(dots.publisher(topic, Bool), Bool(data=on))
    dots.run(0.1)
    assert dots.onboard.drives_on == on
    program = Program(dots)
    program.answer()
    assert dots.onboard.drives_on
    # Nor does it end with the heartbeat of somebody else.
    dots.run(2.5)
    assert dots.onboard.drives_on


def test_with_program_owns_false_the_latest_wish_wins(make_rig):
    here = make_rig(program_owns=False)
    program = Program(here)
    here.run(0.1)
    program.answer(velocity_body=[0.2, 0.0, 0.0])
    here.say(here.publisher("motor_en", Bool), Bool(data=False))
    here.run(0.05)
    assert not here.onboard.drives_on


@pytest.mark.parametrize(
    "fields",
    [{"time": 0.05}, {"time": 0.0}, {"time": 77.0}, {"time": math.nan}, {"time": math.inf}, {"run": 3}],
)
def test_a_command_that_answers_nothing_of_late_is_not_the_programs(dots, fields):
    program = Program(dots)
    dots.api.sense(0.0, anyway=True)
    dots.run(0.1)
    now = program.answer("work", velocity_body=[0.2, 0.0, 0.0])
    wanted = {"time": now, "doing": "garbage", "velocity_body": [0.0, 0.5, 0.0], "lift": msg.Command.YES}
    dots.say(program.publisher, msg.Command(**wanted | fields))
    assert dots.refused["input.command"] == 1
    assert (dots.api.doing, dots.api.answered, dots.api.commands) == ("work", now, 1)
    dots.run(0.1)
    assert abs(dots.truth[4]) < 0.05
    assert dots.onboard.lifter_height < 0.15


def test_what_a_program_says_it_does_is_bounded(dots):
    program = Program(dots)
    dots.run(0.1)
    program.answer("work")
    program.answer("x" * (DOING_MAX + 1))
    assert dots.api.doing == "work"
    assert "`doing` has 1001 characters: at most 1000 fit" in dots.onboard.health.latest["input.command"]


def test_bytes_that_are_no_message_are_refused(dots):
    dots.publisher("cmd_vel", Twist)
    dots.api._made[0].callback(b"\0\1\0\0\7")
    dots.api._made[0].callback(b"")
    assert dots.refused["input.cmd_vel"] == 2


def test_the_diagnostics_warn_only_of_what_was_refused_lately(dots, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 1000.0)
    monkeypatch.setattr("swarmbed_robot.api.time", clock)

    def level():
        return next(status.level for status in dots.api.diagnostics() if status.name == "dots1: refused")

    assert level() == DiagnosticStatus.OK
    dots.api.refuse("cmd_vel", "not finite")
    assert level() == DiagnosticStatus.WARN
    clock.monotonic = lambda: 1000.0 + REFUSED_SECONDS - 0.1
    assert level() == DiagnosticStatus.WARN
    clock.monotonic = lambda: 1000.0 + REFUSED_SECONDS
    assert level() == DiagnosticStatus.OK
    dots.api.refuse("cmd_vel", "not finite")
    assert level() == DiagnosticStatus.WARN
