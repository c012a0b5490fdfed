"""Converts a program's senses and commands to messages and back, without loss.

An invalid message from outside raises `WireError`; its receiver rejects and counts it.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from builtin_interfaces.msg import Time
from swarmbed_core.collision_map import CollisionMap
from swarmbed_core.config import check
from swarmbed_core.control import Mode
from swarmbed_core.device import ImuReading, RadioPacket, Zone
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.markers import SideSight, UndersideSight
from swarmbed_core.motion import Outcome
from swarmbed_core.onboard import fault_of
from swarmbed_core.power import BatteryState
from swarmbed_core.robot import Command, MotionStatus, Senses
from swarmbed_core.safe_yaml import parse
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import MAX_WAYPOINTS, Path, Waypoint

from swarmbed_interfaces import msg
from swarmbed_robot.cdr import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.trajectory import Frame

MODES = (Mode.IDLE, Mode.VELOCITY, Mode.PATH)
"""Modes, indexed by their numbers in MotionStatus.msg."""
NANOSECONDS = 1_000_000_000
SWITCHES = {msg.Command.KEEP: None, msg.Command.NO: False, msg.Command.YES: True}


class WireError(SwarmbedError):
    """A message is invalid, or cannot be made."""


def stamp_of(seconds: float) -> Time:
    """Return a time in seconds as a ROS message; negative times become 0."""
    whole, rest = divmod(max(round(seconds * NANOSECONDS), 0), NANOSECONDS)
    return Time(sec=whole, nanosec=rest)


# Senses


def senses_to_bytes(
    senses: Senses, radios: Sequence[str], frame: str, stamp: tuple[int, int], run: int
) -> bytes:
    """Return senses as a serialised swarmbed_interfaces/Senses.

    Args:
        senses: the senses of a robot.
        radios: names of its radios.
        frame: frame of its `pose_odom`.
        stamp: seconds and nanoseconds of the header, for other nodes; programs use `time`.
        run: number of resets of the world.
    """
    out = Writer()
    out.header(stamp, frame)
    out.count(run)
    out.number(senses.time)
    out.fixed(senses.pose_odom)
    out.fixed(senses.twist_body)
    out.numbers(senses.pose_map)
    out.numbers(senses.pose_covariance)
    out.number(_number(senses.heading))
    out.byte(int(senses.zone))
    out.count(len(senses.ranges))
    for ring, distances in senses.ranges.items():
        out.text(ring)
        out.numbers(distances)
    out.numbers(senses.points_body)
    out.count(senses.collision_map is not None)
    if senses.collision_map is not None:
        cells, state, legs = senses.collision_map.content
        out.numbers(cells)
        out.fixed(state)
        out.numbers(legs)
    out.count(senses.carrier is not None)
    if senses.carrier is not None:
        _write_side(out, senses.carrier)
    out.count(senses.underside is not None)
    if senses.underside is not None:
        _write_underside(out, senses.underside)
    out.number(_number(senses.lifter_height))
    out.count(senses.battery is not None)
    if senses.battery is not None:
        _write_battery(out, senses.battery)
    out.texts(radios)
    out.count(sum(map(len, senses.heard.values())))
    for radio, packets in senses.heard.items():
        for at, sender, payload, rssi, distance in packets:
            out.packet(radio, at, sender, payload, _number(rssi), _number(distance))
    motion = senses.motion
    out.byte(MODES.index(motion.mode))
    out.count(motion.path)
    out.count(motion.waypoint)
    out.number(motion.progress)
    out.number(motion.time_remaining)
    out.byte(int(motion.outcome))
    out.texts(tuple(senses.refused))
    out.large_counts(tuple(senses.refused.values()))
    out.numbers(senses.wheel_travel)
    imu = senses.imu
    out.numbers(None if imu is None else (imu.stamp, *imu.gyro, *imu.accel))
    out.numbers(senses.position)
    out.numbers(senses.ground)
    out.numbers(senses.light)
    out.count(len(senses.spots))
    for camera, spots in senses.spots.items():
        out.text(camera)
        out.numbers(spots)
    return bytes(out.data)


def radio_scan(senses: Senses, frame: str, stamp: tuple[int, int]) -> bytes:
    """Return the packets received by all radios as a serialised swarmbed_interfaces/RadioScan."""
    out = Writer()
    out.header(stamp, frame)
    out.count(sum(map(len, senses.heard.values())))
    for packets in senses.heard.values():
        for _, sender, payload, rssi, distance in packets:
            out.contact(sender, _number(rssi), _number(distance), payload)
    return bytes(out.data)


def senses_from_msg(sent: msg.Senses, spec: RobotSpec) -> Senses:
    """Return the senses in a message.

    Raises:
        WireError: the message is invalid, or from another kind of robot.
    """
    try:
        motion = sent.motion
        return Senses(
            time=sent.time,
            pose_odom=_array(sent.pose_odom),
            twist_body=_array(sent.twist_body),
            pose_map=_known_array("pose_map", sent.pose_map, 3),
            pose_covariance=_known_array("pose_covariance", sent.pose_covariance, 3, 3),
            heading=_known(sent.heading),
            zone=Zone(sent.zone.zone),
            ranges={sweep.ring: _array(sweep.distances) for sweep in sent.ranges},
            points_body=_array(sent.points_body, 2) if spec.ranges else None,
            collision_map=_map_from_msg(sent.collision_map, spec),
            carrier=next((_side_from_msg(side) for side in sent.carrier), None),
            underside=next((_underside_from_msg(side) for side in sent.underside), None),
            lifter_height=_known(sent.lifter_height),
            battery=next((_battery_from_msg(battery) for battery in sent.battery), None),
            heard=heard_from_msg(sent),
            motion=MotionStatus(
                MODES[motion.mode],
                motion.path,
                motion.waypoint,
                motion.progress,
                motion.time_remaining,
                Outcome(motion.outcome),
            ),
            refused=dict(zip(sent.refused, sent.refused_counts, strict=True)),
            wheel_travel=_some(sent.wheel_travel),
            imu=_imu_from_msg(sent.imu),
            position=_known_array("position", sent.position, 2),
            ground=_some(sent.ground),
            light=_some(sent.light),
            spots={seen.camera: _array(seen.spots, 5) for seen in sent.spots},
        )
    except (ValueError, IndexError, SwarmbedError) as error:
        message = f"senses of time {sent.time}: {error}"
        raise WireError(message) from error


def heard_from_msg(sent: msg.Senses) -> dict[str, tuple[RadioPacket, ...]]:
    """Return the received packets in a message, by radio."""
    heard: dict[str, list[RadioPacket]] = {name: [] for name in sent.radios}
    for packet in sent.heard:
        made = RadioPacket(
            packet.stamp, packet.sender, bytes(packet.payload), _known(packet.rssi), _known(packet.distance)
        )
        heard.setdefault(packet.radio, []).append(made)
    return {name: tuple(packets) for name, packets in heard.items()}


def _map_from_msg(sent: Sequence[msg.CollisionMap], spec: RobotSpec) -> CollisionMap | None:
    return CollisionMap.holding(spec, sent[0].cells, sent[0].state, sent[0].legs) if sent else None


def _write_side(out: Writer, sight: SideSight) -> None:
    out.signed(int(sight.id))
    out.number(sight.stamp)
    out.text(sight.camera)
    out.fixed(sight.pose_body)
    out.fixed(sight.covariance)
    out.byte(bool(sight.yaw_known))
    out.number(sight.alignment)
    out.count(int(sight.markers))
    out.numbers(sight.pose_odom)


def _side_from_msg(sent: msg.SideSight) -> SideSight:
    return SideSight(
        sent.id,
        sent.stamp,
        sent.camera,
        _array(sent.pose_body),
        _array(sent.covariance, 3),
        sent.yaw_known,
        sent.alignment,
        sent.markers,
        _known_array("pose_odom", sent.pose_odom, 3),
    )


def _write_underside(out: Writer, sight: UndersideSight) -> None:
    out.number(sight.stamp)
    out.fixed(sight.pose_body)
    out.fixed(sight.covariance)
    out.count(int(sight.markers))
    out.numbers(sight.pose_odom)


def _underside_from_msg(sent: msg.UndersideSight) -> UndersideSight:
    return UndersideSight(
        sent.stamp,
        _array(sent.pose_body),
        _array(sent.covariance, 3),
        sent.markers,
        _known_array("pose_odom", sent.pose_odom, 3),
    )


def _write_battery(out: Writer, battery: BatteryState) -> None:
    out.number(battery.stamp)
    out.number(battery.voltage)
    out.number(battery.current)
    out.number(battery.state_of_charge)
    out.number(battery.remaining_wh)
    out.byte(bool(battery.undervoltage))
    out.number(_number(battery.hours_left))
    out.numbers(battery.cell_voltages)


def _battery_from_msg(sent: msg.BatteryReading) -> BatteryState:
    return BatteryState(
        sent.stamp,
        sent.voltage,
        sent.current,
        sent.state_of_charge,
        sent.remaining_wh,
        sent.undervoltage,
        _known(sent.hours_left),
        tuple(sent.cell_voltages),
    )


# Commands


def command_to_msg(command: Command, *, time: float, run: int, doing: str) -> msg.Command:
    """Return a command as a message.

    Args:
        command: the program's command.
        time: time of the senses that it answers, in seconds.
        run: run of those senses.
        doing: what the program is doing.

    Raises:
        WireError: the command is invalid.
    """
    # The conversion must not turn a command that robots reject into one that they accept.
    fault = fault_of(command)
    if fault is not None:
        raise WireError(": ".join(fault))
    try:
        made = msg.Command(run=run, time=float(time), doing=_text(doing))
        if command.velocity_body is not None:
            made.velocity_body = [float(value) for value in command.velocity_body]
        if command.path is not None:
            made.path = [path_to_msg(command.path)]
        made.cancel = bool(command.cancel)
        for name in ("lift", "carrying", "motors", "power"):
            value = getattr(command, name)
            if value is not None:
                setattr(made, name, msg.Command.YES if value else msg.Command.NO)
        if command.leds is not None:
            made.leds = [operator.index(colour) for colour in command.leds]
        if command.send is not None:
            made.send = [
                msg.RadioPayload(radio=_text(radio), payload=bytes(payload))
                for radio, payload in command.send.items()
            ]
    except (TypeError, ValueError, AssertionError, AttributeError, OverflowError) as error:
        message = f"command: {error}"
        raise WireError(message) from error
    return made


def command_from_msg(sent: msg.Command) -> Command:
    """Return the command in a message.

    Raises:
        WireError: the message is invalid.
    """
    velocity = tuple(sent.velocity_body)
    if len(velocity) not in {0, 3}:
        message = f"velocity_body of {len(velocity)} numbers: expected vx, vy, omega or none"
        raise WireError(message)
    if len(sent.path) > 1:
        message = f"{len(sent.path)} paths: expected at most one"
        raise WireError(message)
    switches = {}
    for name in ("lift", "carrying", "motors", "power"):
        value = getattr(sent, name)
        if value not in SWITCHES:
            message = f"{name} is {value}: expected -1, 0 or 1"
            raise WireError(message)
        switches[name] = SWITCHES[value]
    return Command(
        velocity_body=velocity or None,
        path=path_from_msg(sent.path[0]) if sent.path else None,
        cancel=sent.cancel,
        leds=list(sent.leds) if len(sent.leds) else None,
        send={payload.radio: bytes(payload.payload) for payload in sent.send} or None,
        **switches,
    )


def path_to_msg(path: Path) -> msg.Path:
    """Return a path as a message."""
    return msg.Path(
        frame=path.frame,
        waypoints=[waypoint_to_msg(point) for point in path.waypoints],
        # An integer in a float field passes the message's checks, and then crashes the process.
        max_speed=float(path.max_speed or 0.0),
        max_acceleration=float(path.max_acceleration or 0.0),
    )


def waypoint_to_msg(point: Waypoint) -> msg.Waypoint:
    """Return a waypoint as a message."""
    (x, y, yaw), (vx, vy, omega) = point.pose, point.velocity
    return msg.Waypoint(x=x, y=y, yaw=yaw, vx=vx, vy=vy, omega=omega)


def path_from_msg(sent: msg.Path) -> Path:
    """Return the path in a message.

    Raises:
        WireError: the path is invalid.
    """
    return path_of(sent.frame, sent.waypoints, sent.max_speed, sent.max_acceleration)


def path_of(frame: str, waypoints: Sequence[msg.Waypoint], max_speed: float, max_acceleration: float) -> Path:
    """Return the path in the fields of a message.

    Args:
        frame: frame of the waypoints.
        waypoints: the waypoints.
        max_speed: speed limit in m/s; 0: the robot's own.
        max_acceleration: acceleration limit in m/s²; 0: the robot's own.

    Raises:
        WireError: the path is invalid.
    """
    # Check the number first: there may be millions.
    if not 1 <= len(waypoints) <= MAX_WAYPOINTS:
        message = f"a path of {len(waypoints)} waypoints: expected 1 to {MAX_WAYPOINTS}"
        raise WireError(message)
    try:
        points = tuple(
            Waypoint((point.x, point.y, point.yaw), (point.vx, point.vy, point.omega)) for point in waypoints
        )
        known: Frame = frame  # type: ignore[assignment] # Path checks it
        return Path(points, known, max_speed or None, max_acceleration or None)
    except SwarmbedError as error:
        raise WireError(str(error)) from error


# The robot's kind


def spec_to_text(spec: RobotSpec) -> str:
    """Return a robot's spec as YAML, for RobotInfo."""
    return yaml.safe_dump(spec.model_dump(mode="json", exclude_none=True), sort_keys=False)


def spec_from_text(text: str) -> RobotSpec:
    """Return the spec in the YAML of a RobotInfo message.

    Raises:
        ConfigError: the text is not a valid spec.
    """
    source = "the robot's info"
    return check(parse(text, source), RobotSpec, source)


def _array(values: Any, columns: int = 0) -> FloatArray:
    made = np.array(values, dtype=np.float64)
    return made.reshape(-1, columns) if columns else made


def _known_array(name: str, values: Any, *shape: int) -> FloatArray | None:
    """Return an array field of a message in the given shape; None if it is empty."""
    if not len(values):
        return None
    size = math.prod(shape)
    if len(values) != size:
        message = f"{name} of {len(values)} numbers: expected {size} or none"
        raise WireError(message)
    return _array(values).reshape(shape)


def _some(values: Any) -> FloatArray | None:
    """Return an array field of a message; None if it is empty."""
    return _array(values) if len(values) else None


def _imu_from_msg(values: Any) -> ImuReading | None:
    known = _known_array("imu", values, 7)
    if known is None:
        return None
    stamp, gx, gy, gz, ax, ay, az = known.tolist()
    return ImuReading(stamp, (gx, gy, gz), (ax, ay, az))


def _text(value: str) -> str:
    """Return a string if it can be encoded; otherwise raise TypeError or UnicodeEncodeError."""
    if not isinstance(value, str):
        message = f"found {value!r}, expected a text"
        raise TypeError(message)
    value.encode()
    return value


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
