"""Ground sensors: the reflectance of the arena's floor below each of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.kernel import kernel

from swarmbed_sim.sensors import Sensors

if TYPE_CHECKING:
    from swarmbed_core.arena import Floor
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import GroundSensors

    from swarmbed_sim.parts import Inventory
    from swarmbed_sim.physics import Physics
    from swarmbed_sim.sensors import Chance


@kernel
def ground_k(
    poses: FloatArray,
    places: FloatArray,
    grey: float,
    patches: FloatArray,
    errors: FloatArray,
    out: FloatArray,
) -> None:
    """Compute the reflectance under each sensor; `patches` are a `Floor`'s rows, the later ones on top."""
    for i in range(poses.shape[0]):
        c, s = math.cos(poses[i, 2]), math.sin(poses[i, 2])
        for k in range(places.shape[0]):
            x = poses[i, 0] + c * places[k, 0] - s * places[k, 1]
            y = poses[i, 1] + s * places[k, 0] + c * places[k, 1]
            seen = grey
            for p in range(patches.shape[0] - 1, -1, -1):
                dx, dy = x - patches[p, 0], y - patches[p, 1]
                if patches[p, 6] > 0.0:
                    inside = dx * dx + dy * dy <= patches[p, 6] * patches[p, 6]
                else:
                    along = patches[p, 2] * dx + patches[p, 3] * dy
                    across = patches[p, 2] * dy - patches[p, 3] * dx
                    inside = abs(along) <= patches[p, 4] and abs(across) <= patches[p, 5]
                if inside:
                    seen = patches[p, 7]
                    break
            if errors.shape[0] > 0:
                seen += errors[i, k]
            out[i, k] = min(max(seen, 0.0), 1.0)


class Ground(Sensors):
    """The ground sensors of robots of one kind."""

    def __init__(self, sensors: GroundSensors, floor: Floor, *, noise: bool) -> None:
        """Start without robots."""
        super().__init__(sensors.rate, noise=noise)
        self._places = np.array(sensors.places)
        self._error = sensors.noise
        self._grey = floor.grey
        self._patches = floor.rows()

    def sense(self, poses: FloatArray, chance: Chance) -> FloatArray:
        """Return the reflectances, 0 to 1, below robots at these poses."""
        out = np.empty((len(poses), len(self._places)))
        ground_k(poses, self._places, self._grey, self._patches, chance.within(self._error, out.shape), out)
        return out

    def readings(self, now: float, physics: Physics, inventory: Inventory) -> list[FloatArray]:  # noqa: ARG002
        """Return the reflectances below each robot."""
        return list(self.sense(physics.poses[self.rows], self.chance))
