"""Which places are free: robots, carriers and obstacles are put nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.geometry import between, compose
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import BoxBody

from swarmbed_sim.errors import SimError
from swarmbed_sim.footprint import TOUCH, Footprint, box_print, disc_print, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import Body

    from swarmbed_sim.parts import Inventory
    from swarmbed_sim.physics import Physics

FARTHEST = 1000.0
"""Largest coordinate, in metres, at which things can be placed."""


class Occupancy:
    """What stands where in a world.

    Attributes:
        boxes: footprints of the obstacles by name.
    """

    def __init__(
        self, scene: Scene, physics: Physics, inventory: Inventory, names: Callable[[], Sequence[str]]
    ) -> None:
        """Start with the obstacles of a scene.

        Args:
            scene: its carriers and walls stay.
            physics: knows where robots and carriers are.
            inventory: knows the sizes of robots.
            names: returns the names of the robots.
        """
        self._physics = physics
        self._inventory = inventory
        self._names = names
        self._carriers = scene.carriers
        self._carrier_names = tuple(item.name for item in scene.carriers)
        self._area = scene.arena.size
        self._standing = [Footprint(segment.reshape(2, 2)) for segment in scene.arena.segments()]
        self.boxes = {
            f"obstacle{i}": box_print(item.pose, *item.size)
            if isinstance(item, BoxObstacle)
            else disc_print(*item.pose[:2], item.radius)
            for i, item in enumerate(scene.obstacles, start=1)
        }

    def at_box(self, box: Footprint) -> str | None:
        """Return the robot or carrier that an obstacle would collide with, if any."""
        return self._first_robot(box) or _first(box, self._trays())

    def _first_robot(self, thing: Footprint, *, without: int = -1, above: float = 0.0) -> str | None:
        """Return a robot that overlaps a thing and whose top, or platform, is higher than `above`."""
        sizes, poses = self._inventory.sizes, self._physics.poses
        near = np.hypot(*(poses[:, :2] - thing.middle).T) < thing.reach + sizes[:, 0]
        rows = np.flatnonzero(near & (np.maximum(sizes[:, 1], self._physics.heights) > above)).tolist()
        prints = (
            (self._names()[row], _robot_print(sizes[row].tolist(), poses[row].tolist()))
            for row in rows
            if row != without
        )
        return _first(thing, prints)

    def _trays(self, without: Sequence[int] = ()) -> Iterable[tuple[str, Footprint]]:
        """Return the names and footprints of the carriers' trays."""
        for row, (name, pose) in enumerate(
            zip(self._carrier_names, self._physics.carrier_poses.tolist(), strict=True)
        ):
            if row not in without:
                carrier = self._carriers[row].carrier
                yield name, box_print(pose, carrier.length, carrier.width)

    def _legs(self, row: int, pose: Sequence[float]) -> Iterable[Footprint]:
        """Return the footprints of a carrier's legs at a pose."""
        carrier = self._carriers[row].carrier
        for leg in legs_of(carrier).tolist():
            x, y, _ = compose(pose, (*leg, 0.0)).tolist()
            yield disc_print(x, y, carrier.leg_radius)

    def _fixed(self, thing: Footprint) -> str | None:
        """Return the wall or obstacle that a thing overlaps, if any."""
        size = self._area
        x, y = thing.middle
        if size is not None and (abs(x) > size[0] / 2 or abs(y) > size[1] / 2):
            return "the outside of the walls"
        return _first(thing, [*(("wall", wall) for wall in self._standing), *self.boxes.items()])

    def at_robot(
        self, size: Sequence[float], platform: float, pose: Sequence[float], *, without: int = -1
    ) -> str | None:
        """Return what a robot of this size and platform height would collide with at a pose, if anything."""
        thing, physics = _robot_print(size, pose), self._physics
        there = self._fixed(thing) or self._first_robot(thing, without=without)
        top = max(size[1], platform)
        for i, (name, tray) in enumerate(self._trays()):
            carrier, lift = self._carriers[i].carrier, physics.carrier_lifts[i]
            legs = self._legs(i, physics.carrier_poses[i].tolist())
            parts = [tray] if top > lift + carrier.clearance + TOUCH else legs
            there = there or _first(thing, ((name, part) for part in parts))
        return there

    def at_carrier(self, row: int, pose: Sequence[float]) -> str | None:
        """Return what a carrier, with those joined to it, would collide with at a pose, if anything."""
        body = self._carriers[row].body
        joined = [i for i, item in enumerate(self._carriers) if item.body == body]
        poses = self._physics.carrier_poses
        for i in joined:
            carrier = self._carriers[i].carrier
            x, y, yaw = compose(pose, between(poses[row], poses[i])).tolist()
            tray = box_print((x, y, yaw), carrier.length, carrier.width)
            there = self._fixed(tray) or _first(tray, self._trays(joined))
            there = there or self._first_robot(tray, above=carrier.clearance + TOUCH)
            for leg in self._legs(i, (x, y, yaw)):
                there = there or self._first_robot(leg)
            if there is not None:
                return there
        return None


def size_of(body: Body) -> tuple[float, float, float, float]:
    """Return radius, height, length and width of a body; length and width are 0 for round ones."""
    sides = (body.length, body.width) if isinstance(body, BoxBody) else (0.0, 0.0)
    return body.bounding_radius, body.height, *sides


def _robot_print(size: Sequence[float], pose: Sequence[float]) -> Footprint:
    """Return the footprint of a robot of this size at a pose."""
    radius, _, length, width = size
    x, y, yaw = pose
    return box_print((x, y, yaw), length, width) if length else disc_print(x, y, radius)


def check_pose(what: str, pose: Sequence[float]) -> None:
    """Reject an invalid pose."""
    if len(pose) != 3 or not within_reach(pose):
        message = f"{what}: the pose must be x, y, yaw, all within ±{FARTHEST:g}"
        raise SimError(message)


def check_free(what: str, there: str | None) -> None:
    """Reject a place that is not free."""
    if there is not None:
        message = f"{what}: {there} is there; choose a free place"
        raise SimError(message)


def within_reach(pose: Sequence[float]) -> bool:
    """Return whether all numbers of a pose are finite and within `FARTHEST`."""
    return all(abs(value) <= FARTHEST for value in pose)


def _first(thing: Footprint, others: Iterable[tuple[str, Footprint]]) -> str | None:
    """Return the name of the first footprint that a thing overlaps, if any."""
    return next((name for name, other in others if overlap(thing, other)), None)
