"""Messages as bytes: what ROS reads in them is what was written into their places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from nav_msgs.msg import OccupancyGrid, Odometry, Path
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Imu, PointCloud2, PointField
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.templates import (
    FLAT,
    SLOT,
    OdometryTemplate,
    Template,
    cloud,
    grid_template,
    message,
    path_bytes,
    pose_slots,
    stamped,
    transforms,
    types,
)
from swarmbed_robot.topics import imu_message
from visualization_msgs.msg import MarkerArray

from tf2_msgs.msg import TFMessage

property_test = settings(deadline=None, max_examples=60, derandomize=True)
numbers = st.floats(-1e6, 1e6)
angles = st.floats(-math.pi, math.pi)


def read(template: Template, kind):
    """Return what ROS reads in a template's bytes, of which there are as many as it would write itself."""
    data = bytes(template.data)
    made = deserialize_message(data, kind)
    # What stands between numbers that are aligned is nobody's: there ROS writes whatever there was.
    assert len(serialize_message(made)) == len(data)
    return made


def yaw_of(rotation) -> float:
    return 2 * math.atan2(rotation.z, rotation.w)


# Messages


def test_what_is_not_given_is_nothing_and_a_rotation_is_none():
    made = read(Template(message("geometry_msgs/msg/PoseStamped")), PoseStamped)
    assert made == PoseStamped()
    assert made.pose.orientation.w == 1.0


@pytest.mark.parametrize(
    "name", ["sensor_msgs/msg/Imu", "nav_msgs/msg/Odometry", "sensor_msgs/msg/PointCloud2"]
)
def test_fields_of_every_kind_have_a_nothing(name):
    kinds = {"Imu": Imu, "Odometry": Odometry, "PointCloud2": PointCloud2}
    kind = kinds[name.rpartition("/")[2]]
    assert read(Template(message(name)), kind) == kind()


def test_numbers_of_an_array_may_be_any_sequence():
    made = message("sensor_msgs/msg/Imu", orientation_covariance=range(9))
    assert read(Template(made), Imu).orientation_covariance.tolist() == list(range(9))


def test_unknown_fields_of_a_message_are_told():
    with pytest.raises(TypeError, match="has no field height"):
        message("geometry_msgs/msg/Point", x=1.0, height=2.0)


# Stamps and slots


@pytest.mark.parametrize("count", [1, 2, 5])
def test_stamps_are_written_into_every_header(count):
    transform = message("geometry_msgs/msg/TransformStamped", header=stamped("map"), child_frame_id="odd")
    template = Template(message("tf2_msgs/msg/TFMessage", transforms=[transform] * count))
    assert len(template.stamps) == count
    for seconds, nanoseconds in ((12, 500), (0, 999_999_999), (2**31 - 1, 0)):
        template.stamp(seconds, nanoseconds)
        stamps = [item.header.stamp for item in read(template, TFMessage).transforms]
        assert [(stamp.sec, stamp.nanosec) for stamp in stamps] == [(seconds, nanoseconds)] * count


@given(st.text("abc_", min_size=0, max_size=9), st.text("xyz", max_size=9))
@property_test
def test_names_of_any_length_move_no_number(frame, child):
    template = Template(transforms([(frame, child), (child, frame)], flat=False))
    template.stamp(3, 4)
    template.fill(np.arange(14.0))
    sent = read(template, TFMessage).transforms
    assert [(item.header.frame_id, item.child_frame_id) for item in sent] == [(frame, child), (child, frame)]
    found = []
    for item in sent:
        assert (item.header.stamp.sec, item.header.stamp.nanosec) == (3, 4)
        t, q = item.transform.translation, item.transform.rotation
        found += [t.x, t.y, t.z, q.x, q.y, q.z, q.w]
    assert found == list(range(14))


def test_flat_transforms_have_places_for_what_moves_in_the_plane():
    template = Template(transforms([("map", "odom")], flat=True))
    template.fill(np.array([[1.0, 2.0, 0.6, 0.8]]))
    [sent] = read(template, TFMessage).transforms
    t, q = sent.transform.translation, sent.transform.rotation
    assert (t.x, t.y, t.z, q.x, q.y, q.z, q.w) == (1.0, 2.0, 0.0, 0.0, 0.0, 0.6, 0.8)


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.0, 5e-324, SLOT])
def test_every_number_can_be_written_and_written_over(value):
    template = Template(message("geometry_msgs/msg/PoseStamped", header=stamped("map"), pose=pose_slots(0.7)))
    template.fill(np.full(4, value))
    pose = read(template, PoseStamped).pose
    for got in (pose.position.x, pose.position.y, pose.orientation.z, pose.orientation.w):
        assert np.array(got).tobytes() == np.array(value).tobytes()
    assert (pose.position.z, pose.orientation.x) == (0.7, 0.0)
    template.fill(np.array([1.0, 2.0, 3.0, 4.0]))
    pose = read(template, PoseStamped).pose
    assert (pose.position.x, pose.position.y, pose.orientation.z, pose.orientation.w) == (1.0, 2.0, 3.0, 4.0)


def test_bytes_that_look_like_a_place_are_none_where_no_number_can_be():
    mark = np.array(SLOT).tobytes()
    found = [
        Template(message("sensor_msgs/msg/PointCloud2", data=np.frombuffer(bytes(k) + mark, np.uint8))).slots
        for k in range(8)
    ]
    assert sorted(map(len, found)) == [0] * 7 + [1]


def test_the_wrong_count_of_values_is_an_error_and_not_a_message():
    template = Template(transforms([("map", "odom")], flat=True))
    with pytest.raises(ValueError):
        template.fill(np.zeros(5))


def test_a_message_without_slots_is_left_alone():
    made = message("geometry_msgs/msg/Point", x=1.5)
    template = Template(made)
    assert (template.slots, template.stamps) == ([], [])
    before = bytes(template.data)
    template.stamp(1, 2)
    template.fill(np.empty(0))
    assert bytes(template.data) == before == bytes(types().serialize_cdr(made, made.__msgtype__))


def test_what_was_published_does_not_change_with_the_template():
    template = Template(transforms([("map", "odom")], flat=True))
    template.fill(np.zeros(4))
    sent = bytes(template.data)
    template.fill(np.ones(4))
    assert deserialize_message(sent, TFMessage).transforms[0].transform.translation.x == 0.0


# Odometry


@given(
    st.tuples(numbers, numbers, angles),
    st.tuples(numbers, numbers, numbers),
    st.lists(numbers, min_size=9, max_size=9),
)
@property_test
def test_odometry_with_a_covariance(pose, twist, covariance):
    made = OdometryTemplate("map", "dots1_base_link", covariance=True)
    table = np.array(covariance).reshape(3, 3)
    made.fill(pose, np.array(twist), table)
    made.template.stamp(7, 8)
    got = read(made.template, Odometry)
    place, turn = got.pose.pose.position, got.pose.pose.orientation
    assert (place.x, place.y, place.z, turn.x, turn.y) == (*pose[:2], 0.0, 0.0, 0.0)
    assert yaw_of(turn) == pytest.approx(pose[2], abs=1e-12)
    whole = got.pose.covariance.reshape(6, 6)
    assert np.array_equal(whole[np.ix_((0, 1, 5), (0, 1, 5))], table)
    rest = whole.copy()
    rest[np.ix_((0, 1, 5), (0, 1, 5))] = 0.0
    assert not rest.any()
    motion = got.twist.twist
    assert (motion.linear.x, motion.linear.y, motion.angular.z) == twist
    assert (motion.linear.z, motion.angular.x, motion.angular.y) == (0.0, 0.0, 0.0)
    assert (got.header.frame_id, got.child_frame_id) == ("map", "dots1_base_link")
    assert (got.header.stamp.sec, got.header.stamp.nanosec) == (7, 8)


def test_odometry_without_a_covariance_has_none():
    made = OdometryTemplate("odom", "base_link", covariance=False)
    made.fill((1.0, 2.0, math.pi / 2), np.array([0.1, 0.2, 0.3]), None)
    got = read(made.template, Odometry)
    assert not got.pose.covariance.any()
    assert not got.twist.covariance.any()
    assert (got.pose.pose.position.x, got.twist.twist.angular.z) == (1.0, 0.3)
    assert yaw_of(got.pose.pose.orientation) == pytest.approx(math.pi / 2)


def test_odometry_with_both_covariances_has_no_zero_on_their_diagonals():
    made = OdometryTemplate("odom", "base_link", covariance=True, twist_covariance=True)
    table, other = np.arange(1.0, 10.0).reshape(3, 3), np.arange(11.0, 20.0).reshape(3, 3)
    made.fill((1.0, 2.0, 0.5), np.array([0.1, 0.2, 0.3]), table, other)
    got = read(made.template, Odometry)
    for sent, expected in ((got.pose.covariance, table), (got.twist.covariance, other)):
        whole = sent.reshape(6, 6)
        assert np.array_equal(whole[np.ix_((0, 1, 5), (0, 1, 5))], expected)
        assert np.diag(whole)[[2, 3, 4]].tolist() == [FLAT] * 3
        assert np.count_nonzero(whole) == 12
    motion = got.twist.twist
    assert (motion.linear.x, motion.linear.y, motion.angular.z) == (0.1, 0.2, 0.3)


# Clouds, maps and the IMU


@pytest.mark.parametrize("count", [0, 1, 16])
def test_a_cloud_has_room_for_its_points(count):
    template = Template(cloud("dots1_base_link", count))
    points = np.arange(3.0 * count, dtype="<f4").reshape(count, 3)
    # As the API writes them: behind the points comes only the flag that they are all finite.
    template.data[-1 - 12 * count : -1] = points.tobytes()
    template.stamp(1, 2)
    got = read(template, PointCloud2)
    assert (got.height, got.width, got.point_step, got.row_step) == (1, count, 12, 12 * count)
    assert [(field.name, field.offset) for field in got.fields] == [("x", 0), ("y", 4), ("z", 8)]
    assert {(field.datatype, field.count) for field in got.fields} == {(PointField.FLOAT32, 1)}
    assert np.array_equal(np.frombuffer(bytes(got.data), "<f4").reshape(-1, 3), points)
    assert got.is_dense
    assert not got.is_bigendian
    assert (got.header.frame_id, got.header.stamp.nanosec) == ("dots1_base_link", 2)


@pytest.mark.parametrize("size", [1, 7, 80])
def test_a_grid_has_its_middle_at_the_robot(size):
    template = Template(grid_template("dots1_base_link", size, 0.03))
    cells = (np.arange(size**2) % 101).astype(np.int8)
    template.data[-cells.size :] = cells.tobytes()
    got = read(template, OccupancyGrid)
    assert (got.info.width, got.info.height) == (size, size)
    assert got.info.resolution == pytest.approx(0.03)
    assert got.info.origin.position.x == got.info.origin.position.y == pytest.approx(-size * 0.015)
    assert got.info.origin.orientation.w == 1.0
    assert np.array_equal(np.array(got.data, dtype=np.int8), cells)
    assert got.header.frame_id == "dots1_base_link"


def test_an_imu_knows_rates_and_forces_and_no_orientation():
    spec = RobotSpec.load("dots")
    template = Template(imu_message("dots1_imu_link", spec))
    template.fill(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    got = read(template, Imu)
    rates, forces = got.angular_velocity, got.linear_acceleration
    assert (rates.x, rates.y, rates.z, forces.x, forces.y, forces.z) == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert got.orientation_covariance[0] == -1.0
    assert np.diag(got.angular_velocity_covariance.reshape(3, 3)) == pytest.approx(
        [spec.imu.gyro_sigma**2] * 3
    )
    sigmas = np.diag(got.linear_acceleration_covariance.reshape(3, 3))
    assert sigmas == pytest.approx([spec.imu.accel_sigma**2] * 3)


def test_arrays_of_messages_with_texts_keep_their_places():
    made = [
        message(
            "visualization_msgs/msg/Marker", header=stamped("map"), ns=name, pose=pose_slots(SLOT), text=name
        )
        for name in ("a", "bcd", "")
    ]
    template = Template(message("visualization_msgs/msg/MarkerArray", markers=made))
    template.fill(np.arange(15.0))
    got = read(template, MarkerArray).markers
    assert [(item.pose.position.x, item.pose.orientation.w) for item in got] == [(0, 4), (5, 9), (10, 14)]
    assert [item.text for item in got] == ["a", "bcd", ""]


@property_test
@given(
    st.text("abc_12", max_size=12),
    st.lists(st.tuples(numbers, numbers, angles), max_size=30),
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 999_999_999)),
)
def test_a_path_of_any_length_is_what_ros_would_write(frame, poses, stamp):
    rows = np.array(poses).reshape(-1, 3)
    expected = Path()
    expected.header.frame_id = frame
    expected.header.stamp.sec, expected.header.stamp.nanosec = stamp
    for x, y, yaw in rows.tolist():
        place = PoseStamped(header=expected.header)
        place.pose.position.x, place.pose.position.y = x, y
        place.pose.orientation.z, place.pose.orientation.w = np.sin(yaw / 2), np.cos(yaw / 2)
        expected.poses.append(place)
    made = path_bytes(frame, stamp, rows)
    assert deserialize_message(made, Path) == expected
    assert len(made) == len(serialize_message(expected))
