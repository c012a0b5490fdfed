"""Light sensors: how bright the scenario's lamps are at each of them.

The model follows "Design and analysis of an E-Puck2 robot plug-in for ARGoS" (3.2): equation (2), weighted by
the cosine of the angle to the sensor's axis (our choice), unless something blocks the line of sight. Like the
real ones, the sensors do not see other robots' LEDs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.kernel import kernel
from swarmbed_core.lamps import FAR, dimming_k

from swarmbed_sim.planar_kernels import sort_cells_k
from swarmbed_sim.sensors import Sensors
from swarmbed_sim.sight import between_k, hidden_k, near_k, walls_k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scenario import Light
    from swarmbed_core.spec import LightSensors, RangeRing

    from swarmbed_sim.parts import Inventory
    from swarmbed_sim.physics import IntArray, Physics
    from swarmbed_sim.sensors import Chance
    from swarmbed_sim.sight import Discs, Sight


def lamp_rows(lamps: Sequence[Light]) -> FloatArray:
    """Return lamps as rows of x, y, z, intensity, red, green, blue."""
    rows = [(*lamp.place, lamp.intensity, *lamp.colour) for lamp in lamps]
    return np.array(rows, dtype=np.float64).reshape(-1, 7)


@kernel
def lights_k(
    poses: FloatArray,
    rows: IntArray,
    axes: FloatArray,
    mount: FloatArray,
    lamps: FloatArray,
    discs: FloatArray,
    tops: FloatArray,
    frame: FloatArray,
    cells: IntArray,
    starts: IntArray,
    order: IntArray,
    near: IntArray,
    segments: FloatArray,
    pillars: FloatArray,
    out: FloatArray,
) -> None:
    """Compute the brightness at each light sensor by equation (2): 0 in the dark, 1 and more when blinded.

    Args:
        poses: of the robots, whose discs come first.
        rows: of the robots with sensors.
        axes: rows of x, y: the sensors' directions in the robot's frame.
        mount: the sensors' distance from the robot's centre, and their height.
        lamps: rows of x, y, z, intensity.
        discs: rows of x, y, radius.
        tops: heights of the discs.
        frame: work array for the grid's frame, as are the next three.
        cells: see `frame`.
        starts: see `frame`.
        order: see `frame`.
        near: work array with one entry per disc.
        segments: walls.
        pillars: rows of x, y, radius.
        out: output, a row per robot with sensors.
    """
    reach = FAR + mount[0]
    sort_cells_k(discs, FAR, frame, cells, starts, order)
    for i in range(rows.shape[0]):
        row = rows[i]
        x, y = poses[row, 0], poses[row, 1]
        c, s = math.cos(poses[row, 2]), math.sin(poses[row, 2])
        for k in range(axes.shape[0]):
            out[i, k] = 0.0
        for lamp in range(lamps.shape[0]):
            dx, dy = lamps[lamp, 0] - x, lamps[lamp, 1] - y
            if dx * dx + dy * dy > reach * reach:
                continue
            count = near_k(x, y, math.sqrt(dx * dx + dy * dy), discs, frame, starts, order, near)
            count = between_k(x, y, lamps[lamp, 0], lamps[lamp, 1], mount[0], discs, near, count)
            walls = walls_k(x, y, lamps[lamp, 0], lamps[lamp, 1], mount[0], segments)
            for k in range(axes.shape[0]):
                ax, ay = c * axes[k, 0] - s * axes[k, 1], s * axes[k, 0] + c * axes[k, 1]
                to_x, to_y, to_z = dx - mount[0] * ax, dy - mount[0] * ay, lamps[lamp, 2] - mount[1]
                distance = math.sqrt(to_x * to_x + to_y * to_y + to_z * to_z)
                facing = (to_x * ax + to_y * ay) / max(distance, 1e-9)
                if facing <= 0.0 or distance > FAR:
                    continue
                if hidden_k(
                    x + mount[0] * ax,
                    y + mount[0] * ay,
                    mount[1],
                    lamps[lamp, 0],
                    lamps[lamp, 1],
                    lamps[lamp, 2],
                    discs,
                    tops,
                    near,
                    count,
                    row,
                    row,
                    walls,
                    segments,
                    pillars,
                ):
                    continue
                out[i, k] += facing * dimming_k(lamps[lamp, 3], distance)


class LightSense(Sensors):
    """The light sensors of robots of one kind, at the places of a ring of distance sensors."""

    def __init__(
        self,
        sensors: LightSensors,
        ring: RangeRing,
        lamps: Sequence[Light],
        sight: Sight | None,
        *,
        noise: bool,
    ) -> None:
        """Start without robots.

        Args:
            sensors: of the robots.
            ring: on which they are.
            lamps: of the scenario.
            sight: the bodies of the world; None if only `sense` is used.
            noise: whether there is any.
        """
        super().__init__(sensors.rate, noise=noise)
        self._error = sensors.noise
        self._axes = np.stack([np.cos(ring.angles), np.sin(ring.angles)], axis=1)
        self._mount = np.array((ring.mount_radius, ring.mount_height))
        self._lamps = lamp_rows(lamps)
        self._sight = sight

    def sense(self, physics: Physics, rows: IntArray, bodies: Discs, chance: Chance) -> FloatArray:
        """Return the brightness, 0 in the dark, 1 and more when blinded, at the sensors of these robots."""
        out = np.empty((len(rows), len(self._axes)))
        lights_k(
            physics.poses,
            rows,
            self._axes,
            self._mount,
            self._lamps,
            bodies.discs,
            bodies.tops,
            bodies.frame,
            bodies.cells,
            bodies.starts,
            bodies.order,
            bodies.near,
            physics.segments,
            physics.pillars,
            out,
        )
        errors = chance.within(self._error, out.shape)
        if len(errors):
            out += errors
        return out

    def readings(self, now: float, physics: Physics, inventory: Inventory) -> list[FloatArray]:
        """Return the brightness at the sensors of each robot."""
        if self._sight is None:
            raise AssertionError
        self._sight.look(now, physics, inventory)
        return list(self.sense(physics, self.rows, self._sight, self.chance).clip(0.0, 1.0))
