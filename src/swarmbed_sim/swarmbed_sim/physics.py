"""What differs between the worlds of this package: bodies, forces and contacts.

A `Physics` moves bodies for one control cycle; everything that a robot carries (wheels and encoders, range
sensors, cameras, radios, battery) is made on top of its arrays by `swarmbed_sim.sim_world`, the same for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement
    from swarmbed_core.spec import RangeRing

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]


class Physics(Protocol):
    """Bodies and contacts. The arrays are the same objects, rewritten by `advance`, until robots come or go.

    Attributes:
        timestep: seconds that one `advance` takes.
        poses: rows x, y, yaw of the robots in `map`.
        twists: rows vx, vy along the robots' bodies, omega.
        pushes: m/s² that the robots' drives push with, along the floor: their force over the robot's mass.
        heights: of the robots' lifting platforms above the floor (0 where there is none).
        carrier_poses: rows x, y, yaw of the carriers in `map`.
        carrier_lifts: metres of the carriers' feet above the floor.
        carried_by: for each carrier the row of the robot that has lifted it, -1 if it is on the floor.
        segments: walls and boxes as rows x1, y1, x2, y2; `add_box` replaces it.
        pillars: cylinders that stand fast as rows x, y, radius.
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

    def advance(self, v_body: FloatArray, driven: BoolArray, platforms: FloatArray) -> None:
        """Let one time step pass.

        Args:
            v_body: rows vx, vy, omega that the drives try to reach, with limited force.
            driven: which robots' drives hold and push; the others roll out and stand (their wheels brake).
            platforms: the set-points of the lifting platforms.
        """
        ...

    def contacts(self) -> Sequence[tuple[str, str, float]]:
        """Return what began to touch since the last call: two names and the speed of closing in, m/s.

        Names are those of robots and carriers in the scene, `wall`, `obstacle<n>` and those given to
        `add_box`; robot first. A robot and the carrier that it lifts are no contact worth telling, nor
        are a carrier and the floor. What touched within the last 0.5 s does not begin anew, unless it was
        apart for 0.05 s and comes in faster than what was told.
        """
        ...

    def cast(self, ring: RangeRing, rows: IntArray) -> FloatArray | None:
        """Return what the sensors of a ring on some robots would measure without errors.

        By robot and sensor, infinity where nothing is. None if the engine has no rays: then walls, discs and
        boxes in the plane say it.
        """
        ...

    def light(self, row: int, colours: Sequence[int]) -> None:
        """Let a robot's lights be seen by whoever looks on; nothing else depends on it.

        Args:
            row: of the robot.
            colours: one packed colour a light.
        """
        ...

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Put a robot somewhere else, standing."""
        ...

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Put a carrier, with those joined to it, somewhere else, standing on the floor."""
        ...

    def add_robot(self, placement: RobotPlacement) -> None:
        """Put one more robot on the floor, standing, in a row after the others'; all else goes on as it did.

        Raises:
            SimError: there can be no such body.
        """
        ...

    def remove_robot(self, row: int) -> None:
        """Take a robot away: the rows after its own are one less, and what it has lifted falls."""
        ...

    def add_box(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Put a box that stands fast on the floor.

        Raises:
            SimError: there is one of this name.
        """
        ...

    def remove_box(self, name: str) -> None:
        """Take away a box that `add_box` put there.

        Raises:
            SimError: there is none.
        """
        ...

    def close(self) -> None:
        """Give back what the engine holds."""
        ...
