"""Interface of worlds: time, ground truth, and the raw parts of the robots.

A world advances in its own time steps; its owner steps the robots' Onboards in between. No decision may use
`truth()`: it is for transducers, plots and tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.device import Device
    from swarmbed_core.feed import Reader
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.led import LedState, Tellings
    from swarmbed_core.scenario import Obstacle
    from swarmbed_core.scene import RobotPlacement
    from swarmbed_core.spec import RobotSpec


@dataclass(frozen=True, slots=True)
class Contact:
    """The start of a contact between two bodies: names of robots or carriers, `wall` or `obstacle<n>`.

    `speed` is the closing speed in m/s. For a carrier, the part that touches is a leg or the tray.
    """

    time: float
    one: str
    other: str
    speed: float


@dataclass(frozen=True, slots=True, eq=False)
class CarrierTruth:
    """True state of the carriers, one row each.

    Attributes:
        names: names of the carriers.
        markers: ids of the markers on their sides.
        poses: x, y, yaw in `map`.
        lifts: height of their feet above the floor, in metres.
        carried_by: row of the robot that has lifted each, -1 for those that stand on the floor.
    """

    names: Sequence[str]
    markers: Sequence[int]
    poses: FloatArray
    lifts: FloatArray
    carried_by: NDArray[np.int64]


class World(Protocol):
    """Owner of time and truth."""

    @property
    def time(self) -> float:
        """Return seconds since the start of the world."""
        ...

    @property
    def timestep(self) -> float:
        """Return the length of a time step, in seconds of the world's time."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Return the robots' names, in the order of `truth()`."""
        ...

    def step(self) -> None:
        """Advance by one time step."""
        ...

    def truth(self) -> FloatArray:
        """Return a row for each robot: x, y, yaw in `map`, vx, vy along its body, omega."""
        ...

    def device(self, name: str) -> Device:
        """Return the parts of the robot called `name`."""
        ...


class TaskWorld(World, Protocol):
    """A world with carriers and contacts, in which experiments can inject disturbances.

    A world breaks its own parts of a robot, and notes it in the `faults` of the robot's device for parts that
    are not its own.
    """

    def carriers(self) -> CarrierTruth:
        """Return the true state of the carriers."""
        ...

    def watch_contacts(self) -> Reader[Contact]:
        """Return a reader of the contacts that start from now on; there may be any number of readers."""
        ...

    def energy_wh(self) -> FloatArray:
        """Return the energy that each robot has drawn from its battery, in Wh."""
        ...

    def messages(self) -> Mapping[str, int]:
        """Return how many packets with a payload were `sent`, `heard` and `lost`."""
        ...

    def teleport(self, name: str, pose: tuple[float, float, float]) -> None:
        """Move a robot or a carrier to a free place, as if picked up by hand."""
        ...

    def kill(self, name: str) -> None:
        """Disable a robot's drive, lifter, sensors and radios from now on. Its body stays."""
        ...

    def kill_sensor(self, name: str, ring: str, sensor: int) -> None:
        """Disable one distance sensor: it gives no returns from now on."""
        ...

    def set_slip(self, name: str, share: float) -> None:
        """Add slip from now on: this share of the wheels' travel is lost, on top of the spec's slip."""
        ...

    def set_drift(self, name: str, stretch: float, veer: float) -> None:
        """Scale a robot's true travel by `stretch` from now on, and turn it by `veer` rad per metre."""
        ...

    def set_radio_loss(self, share: float) -> None:
        """Drop this share of all receptions from now on."""
        ...

    def tell(self, tellings: Tellings) -> None:
        """Take tellings of where led robots are, which the next steps follow; invalid ones are counted."""
        ...

    def led(self) -> LedState:
        """Return the state of the led bodies, and what was rejected."""
        ...

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a robot where the floor is free; it becomes the last of `names`."""
        ...

    def remove_robot(self, name: str) -> None:
        """Remove a robot and its body; its parts return nothing new from now on."""
        ...

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Return the current obstacles: those of the scene and the boxes that were added."""
        ...

    def add_obstacle(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Put a box on the floor; `pose` is that of its centre."""
        ...

    def remove_obstacle(self, name: str) -> None:
        """Remove a box that was added."""
        ...

    def close(self) -> None:
        """Release the world's resources."""
        ...


@runtime_checkable
class HasCrowd(Protocol):
    """What can drive thousands of robots without an Onboard each."""

    def crowd(self) -> Crowd:
        """Return all robots as one crowd."""
        ...


class CrowdWorld(TaskWorld, HasCrowd, Protocol):
    """A world with crowds."""


class Crowd(Protocol):
    """All robots of a world, as arrays."""

    spec: RobotSpec
    count: int
    v_body: FloatArray
    """Commanded velocities: rows of vx, vy, omega. Write into it; the world applies the motion limits."""

    def senses(self) -> CrowdSenses:
        """Return the current senses of all robots."""
        ...
