"""What every world gives: time, truth, and the raw parts of its robots.

A world advances in steps of its own; whoever holds it steps the robots' Onboards in between. Nothing
that decides looks at `truth()`: it is for transducers, plots and tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.device import Device
    from swarmbed_core.feed import Reader
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import RobotSpec


@dataclass(frozen=True, slots=True)
class Contact:
    """Two things that have begun to touch: names of robots or carriers, `wall` or `obstacle<n>`.

    `speed` is how fast they closed in, in m/s; a carrier's part is one of its legs or its tray.
    """

    time: float
    one: str
    other: str
    speed: float


@dataclass(frozen=True, slots=True, eq=False)
class CarrierTruth:
    """Where the carriers are, one row each.

    Attributes:
        names: of the carriers.
        markers: the ids on their sides.
        poses: x, y, yaw in `map`.
        lifts: metres of their feet above the floor.
        carried_by: the row of the robot that has lifted each, -1 for those that stand on the floor.
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
        """Return the seconds that one `step()` takes of the world's time."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Return the robots' names, in the order of `truth()`."""
        ...

    def step(self) -> None:
        """Let one time step pass."""
        ...

    def truth(self) -> FloatArray:
        """Return a row for each robot: x, y, yaw in `map`, vx, vy along its body, omega."""
        ...

    def device(self, name: str) -> Device:
        """Return the parts of the robot called `name`."""
        ...


class TaskWorld(World, Protocol):
    """A world with carriers and contacts, that experiments can disturb."""

    def carriers(self) -> CarrierTruth:
        """Return where the carriers are."""
        ...

    def watch_contacts(self) -> Reader[Contact]:
        """Return a reader of the contacts that begin from now on; there may be any number of readers."""
        ...

    def energy_wh(self) -> FloatArray:
        """Return what each robot has drawn from its battery, in Wh."""
        ...

    def messages(self) -> Mapping[str, int]:
        """Return how many packets with a payload were `sent`, `heard` and `lost`."""
        ...

    def teleport(self, name: str, pose: tuple[float, float, float]) -> None:
        """Put a robot or a carrier somewhere else, as a hand would: not onto something else."""
        ...

    def kill(self, name: str) -> None:
        """Let a robot die: no drive, no lifter, no sensor, no radio from now on. Its body stays."""
        ...

    def kill_sensor(self, name: str, ring: str, sensor: int) -> None:
        """Let one distance sensor return nothing from now on."""
        ...

    def set_slip(self, name: str, share: float) -> None:
        """Let a share of a robot's wheels' way slip away from now on, over what its spec says."""
        ...

    def set_drift(self, name: str, stretch: float, veer: float) -> None:
        """Let a robot go `stretch` times as far as its wheels say and turn `veer` rad a metre from now on."""
        ...

    def set_radio_loss(self, share: float) -> None:
        """Lose this share of all receptions from now on."""
        ...

    def add_robot(self, placement: RobotPlacement) -> None:
        """Put one more robot on the floor, where there is room; it is the last of `names`."""
        ...

    def remove_robot(self, name: str) -> None:
        """Take a robot out of the world, body and all; its parts return nothing new from now on."""
        ...

    def add_obstacle(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Put a box on the floor; `pose` is of its middle."""
        ...

    def remove_obstacle(self, name: str) -> None:
        """Take a box away again."""
        ...

    def standing(self) -> Scene:
        """Return the scene with the robots and obstacles of now."""
        ...

    def close(self) -> None:
        """Give back what the world holds."""
        ...


class CrowdWorld(TaskWorld, Protocol):
    """A world that can drive thousands of robots without an Onboard each."""

    def crowd(self) -> Crowd:
        """Return all robots as one crowd."""
        ...


class Crowd(Protocol):
    """All robots of a world, as arrays."""

    spec: RobotSpec
    count: int
    v_body: FloatArray
    """What each robot shall do: rows of vx, vy, omega. Write into it; motion limits are the world's."""

    def senses(self) -> CrowdSenses:
        """Return what all robots sense now."""
        ...
