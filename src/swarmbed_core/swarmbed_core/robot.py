"""What a program sees of a robot: `sense()` and `act()`, in every reality the same.

A controller is written against `Robot` and never learns whether the robot is in this process, behind
ROS topics or made of metal. What is None in a `Command` stays as it is, so a program says only what it
wants changed.
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
    from swarmbed_core.device import RadioPacket
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import SideSight, UndersideSight
    from swarmbed_core.power import BatteryState
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Path


@dataclass(frozen=True, slots=True)
class MotionStatus:
    """What the motion control is doing: its mode and, on a path, how far along it is.

    `path` counts the paths accepted so far, so that a program can tell its own from the one before;
    `outcome` is what became of the latest.
    """

    mode: Mode = Mode.IDLE
    path: int = 0
    waypoint: int = 0
    progress: float = 1.0
    time_remaining: float = 0.0
    outcome: Outcome = Outcome.NONE


@dataclass(frozen=True, slots=True)
class Senses:
    """All that a robot knows at `time`. What it has no part for is None or empty.

    Attributes:
        time: the robot's clock, in seconds.
        pose_odom: dead-reckoned pose since the start: smooth, but it drifts.
        twist_body: velocity estimate along the body's axes and the rate of turn.
        pose_map: the EKF's pose in the arena, None until a marker has been seen.
        pose_covariance: its 3 x 3 covariance.
        heading: absolute heading from the compass.
        zone: the zone of the task, as the zone sense has it.
        ranges: newest distances of each ring, from the sensors' faces, NaN without return.
        points_body: the newest returns of all rings as points about the robot's centre.
        collision_map: what was seen around the robot lately.
        carrier: the side marker of the carrier that has the robot's attention.
        underside: the place of the carrier above, as the upward camera has it.
        lifter_height: height of the platform.
        battery: voltage, charge, hours left.
        heard: what the radios heard since the sense before this one, by radio.
        motion: what the motion control is doing.
        refused: how many inputs were refused since the start, by reason.
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


@dataclass(frozen=True, slots=True)
class Command:
    """What a program wants of its robot now; None leaves things as they are.

    Attributes:
        velocity_body: body velocity (vx, vy, omega); it must be repeated, or the robot stops.
        path: a path to follow from now on, in place of whatever it did.
        cancel: brake at the maximum deceleration and forget the path.
        lift: raise (True) or lower (False) the platform.
        leds: one packed colour a light.
        send: bytes to broadcast, by radio.
        carrying: whether the legs of a carrier must be forgiven by the collision map.
        motors: switch the drives on or off.
        power: the power watchdog's heartbeat.
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
        """Return what kind of robot it is."""
        ...

    def sense(self) -> Senses:
        """Return what the robot knows now."""
        ...

    def act(self, command: Command) -> None:
        """Ask the robot for something; what cannot be done is refused and counted, not raised."""
        ...
