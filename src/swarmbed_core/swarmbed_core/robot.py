"""The robot interface of programs: `sense()` and `act()`, the same for simulated and real robots.

A controller is written against `Robot`. It works unchanged with a robot in the same process, behind ROS
topics or in hardware. Fields that are None in a `Command` leave things unchanged, so a program sets only
what it wants to change.

Notes in brackets give shape, unit and frame, for docs/reference/senses.md (`scripts/reference`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from swarmbed_core.control import Mode
from swarmbed_core.device import Zone
from swarmbed_core.motion import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from swarmbed_core.collision_map import CollisionMap
    from swarmbed_core.device import ImuReading, RadioPacket
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import SideSight, UndersideSight
    from swarmbed_core.power import BatteryState
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Path


@dataclass(frozen=True, slots=True)
class MotionStatus:
    """State of the motion control: its mode and the progress along the path.

    Attributes:
        mode: whether the robot is idle, follows velocities or follows a path.
        path: number of paths accepted so far. It tells a program whether its own path is active yet.
        waypoint: index of the next waypoint; after the last one, the number of waypoints.
        progress: share of the waypoints of the latest path that are done, from 0 to 1.
        time_remaining: [s] time left on the path.
        outcome: how the latest path ended.
    """

    mode: Mode = Mode.IDLE
    path: int = 0
    waypoint: int = 0
    progress: float = 1.0
    time_remaining: float = 0.0
    outcome: Outcome = Outcome.NONE


@dataclass(frozen=True, slots=True)
class Senses:
    """The robot's state and perception at `time`. Fields of parts that the robot lacks are None or empty.

    Attributes:
        time: [s] the robot's clock.
        pose_odom: [(3,); m, m, rad; odom] pose by dead reckoning since the start. Smooth, but it drifts.
        twist_body: [(3,); m/s, m/s, rad/s; base_link] estimate of the velocity vx, vy and the rate of turn.
        pose_map: [(3,); m, m, rad; map] pose in the arena, as the EKF estimates it. None until the robot has
            seen a wall marker or was placed, and always for a robot that is not `localised`.
        pose_covariance: [(3, 3); m², m·rad, rad²; map] covariance of `pose_map`. None whenever `pose_map` is.
        heading: [rad; map] absolute heading from the compass; without one, the yaw of `pose_map`. None before
            the first reading, and while neither is known.
        zone: the zone of the task that the robot stands in, by its zone sense; without one, by `pose_map`.
            `NEITHER` while neither is known.
        ranges: [(count,) each; m] newest distances of each ring, by its name, from the faces of the sensors.
            Infinity where nothing came back, and before the first sweep. Empty without rings.
        points_body: [(N, 2); m; base_link] the newest returns of all rings as points x, y about the robot's
            centre. Sensors without a return are left out. None without rings.
        collision_map: obstacles detected around the robot lately. None without rings.
        carrier: the side of the carrier that the robot focusses on. None while no side is in sight.
        underside: the carrier above the robot, as the upward camera sees it. None while there is none.
        lifter_height: [m] height of the platform's top above the floor. None without a lifter.
        battery: voltage, charge and hours left. None without a battery, and before its first reading.
        heard: packets received since the previous call of `sense`, oldest first, by radio. Each program gets
            each packet once.
        motion: state of the motion control.
        refused: how many inputs were refused since the start, by reason.
        wheel_travel: [(wheels,); m] distance that each wheel has rolled since power-up, along its own
            direction. None before the first reading.
        imu: newest reading of the inertial sensor. None without one.
        position: [(2,); m; map] x, y by the position sensor. None without one, and while it is silent.
        ground: [(count,)] reflectance of the floor below each ground sensor, from 0 (black) to 1 (white).
            None without such sensors, and while they are silent.
        light: [(count,)] brightness at each light sensor, from 0 (dark) to 1 (blinded). None like `ground`.
        spots: [(N, 5) each; px, px, 0..255] the coloured lights that each camera sees, by its name: rows of
            column, row, red, green, blue. Only cameras whose `range_max` is known, once they took an image.
    """

    time: float
    pose_odom: FloatArray
    twist_body: FloatArray
    pose_map: FloatArray | None = None
    pose_covariance: FloatArray | None = None
    heading: float | None = None
    zone: Zone = Zone.NEITHER
    ranges: Mapping[str, FloatArray] = field(default_factory=dict)
    points_body: FloatArray | None = None
    collision_map: CollisionMap | None = None
    carrier: SideSight | None = None
    underside: UndersideSight | None = None
    lifter_height: float | None = None
    battery: BatteryState | None = None
    heard: Mapping[str, tuple[RadioPacket, ...]] = field(default_factory=dict)
    motion: MotionStatus = field(default_factory=MotionStatus)
    refused: Mapping[str, int] = field(default_factory=dict)
    wheel_travel: FloatArray | None = None
    imu: ImuReading | None = None
    position: FloatArray | None = None
    ground: FloatArray | None = None
    light: FloatArray | None = None
    spots: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """Command of a program to its robot; None leaves things as they are.

    Attributes:
        velocity_body: [(3,); m/s, m/s, rad/s; base_link] velocity vx, vy and rate of turn. It expires after
            0.5 s: repeat it, or the robot stops. Robots with two wheels ignore vy.
        path: a path to follow from now on; it replaces the active one.
        cancel: brake at the limit of deceleration and drop the path.
        lift: raise (True) or lower (False) the platform.
        leds: [one per light] packed colours, 0xBBGGRR; `swarmbed_core.leds.pack` makes them.
        send: [bytes] payload to broadcast, by the name of the radio; at most its `payload_bytes`. `ble`
            advertises it until the next one; the other radios send it once.
        carrying: whether a carrier is on the platform; if so, the collision map ignores its legs.
        motors: switch the drives on (True) or off.
        power: heartbeat of the power watchdog. Once begun, repeat it every 2 s, or the drives switch off.
    """

    velocity_body: tuple[float, float, float] | None = None
    path: Path | None = None
    cancel: bool = False
    lift: bool | None = None
    leds: Sequence[int] | None = None
    send: Mapping[str, bytes] | None = None
    carrying: bool | None = None
    motors: bool | None = None
    power: bool | None = None


class Robot(Protocol):
    """The protocol that programs are written against."""

    @property
    def name(self) -> str:
        """Return the robot's unique name."""
        ...

    @property
    def spec(self) -> RobotSpec:
        """Return the specification of this kind of robot."""
        ...

    def sense(self) -> Senses:
        """Return the robot's current state and perception."""
        ...

    def act(self, command: Command) -> None:
        """Send a command; what the robot cannot do is refused and counted, and never raises."""
        ...
