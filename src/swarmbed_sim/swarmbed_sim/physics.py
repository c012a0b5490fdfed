"""The interface between worlds and physics engines: bodies, forces and contacts.

A `Physics` moves bodies for one control cycle. `swarmbed_sim.sim_world` builds everything that a robot
carries (wheels and encoders, range sensors, cameras, radios, battery) on top of its arrays, in the same way
for all engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement
    from swarmbed_core.spec import RangeRing

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]


class Physics(Protocol):
    """Bodies and contacts.

    `advance` updates the arrays in place; adding or removing robots replaces them.

    A robot whose placement is `tracked` has a *led* body: it goes where `advance` is told, and nothing pushes
    it. Engines that cannot do that reject such robots.

    Attributes:
        timestep: seconds per `advance`.
        poses: rows x, y, yaw of the robots in `map`.
        twists: rows vx, vy, omega in the robots' frames.
        pushes: horizontal force of each robot's drives over its mass, m/s².
        heights: of the robots' lifting platforms above the floor (0 without a platform).
        carrier_poses: rows x, y, yaw of the carriers in `map`.
        carrier_lifts: metres of the carriers' feet above the floor.
        carried_by: for each carrier the row of the robot that has lifted it, -1 if it is on the floor.
        segments: walls and boxes as rows x1, y1, x2, y2; replaced by `add_box` and `remove_box`.
        pillars: fixed cylinders as rows x, y, radius.
        led: rows of the robots whose bodies are led.
    """

    timestep: float
    poses: FloatArray
    twists: FloatArray
    pushes: FloatArray
    heights: FloatArray
    carrier_poses: FloatArray
    carrier_lifts: FloatArray
    carried_by: IntArray
    segments: FloatArray
    pillars: FloatArray
    led: IntArray

    def advance(
        self, v_body: FloatArray, driven: BoolArray, platforms: FloatArray, told: FloatArray | None = None
    ) -> None:
        """Advance by one time step.

        Args:
            v_body: target velocities, rows vx, vy, omega, which the drives approach with limited force.
            driven: which robots' drives are on; the others brake to a stop.
            platforms: set-points of the lifting platforms in metres above the floor.
            told: for led bodies, which must be given if there are any: rows of x, y, yaw in `map` at the end
                of the step; of vx, vy, omega in the robot's frame, which become its `twists`; and of those
                that count for the closing speed of contacts. The way to the pose may be faster or slower, if
                it corrects an error or walls hold the body. The rows of other robots are not read.
        """
        ...

    def contacts(self) -> Sequence[tuple[str, str, float]]:
        """Return the contacts that began since the last call: two names and the closing speed in m/s.

        Names are those of robots and carriers in the scene, `wall`, `obstacle<n>` and those given to
        `add_box`; robots come first. Contacts between a robot and the carrier that it lifts, and between a
        carrier and the floor, are not reported. A pair that touched within the last 0.5 s is not reported
        again, unless it was apart for 0.05 s and closes faster than last reported.
        """
        ...

    def cast(self, ring: RangeRing, rows: IntArray) -> FloatArray | None:
        """Return the error-free readings of a ring's sensors on some robots.

        The result is indexed by robot and sensor, and inf where nothing is in range. None if the engine has
        no ray casting; the caller then casts rays on the walls, discs and boxes in the plane.
        """
        ...

    def light(self, row: int, colours: Sequence[int]) -> None:
        """Show a robot's LEDs in the engine's display, if it has one; nothing else depends on it.

        Args:
            row: of the robot.
            colours: one packed colour per LED.
        """
        ...

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a robot to a pose, at rest."""
        ...

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a carrier and those joined to it to a pose on the floor, at rest."""
        ...

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a robot at rest, in a row after the others; the state of everything else is kept.

        Raises:
            SimError: the engine rejects its name or body.
        """
        ...

    def remove_robot(self, row: int) -> None:
        """Remove a robot and decrement the rows after it; what it has lifted falls."""
        ...

    def add_box(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Add a fixed box.

        Raises:
            SimError: the name is taken.
        """
        ...

    def remove_box(self, name: str) -> None:
        """Remove a box that `add_box` added.

        Raises:
            SimError: unknown name.
        """
        ...

    def close(self) -> None:
        """Release the engine's resources."""
        ...


def led_rows(robots: Sequence[RobotPlacement]) -> IntArray:
    """Return the rows of the robots whose bodies are led."""
    return np.array([row for row, robot in enumerate(robots) if robot.tracked is not None], dtype=np.int64)
