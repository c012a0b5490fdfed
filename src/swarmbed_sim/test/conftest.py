"""What the tests of the worlds share: a physics without forces, and scenes that are quickly written.

Scripts get it by `sys.path.insert(0, "src/swarmbed_sim/test")` and `from conftest import KinematicPhysics`.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.raycast import box_segments
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import Scene, make_scene
from swarmbed_sim.errors import SimError
from swarmbed_sim.physics import led_rows
from swarmbed_sim.sim_world import SimWorld


class KinematicPhysics:
    """Bodies that do at once what their drives ask, pass through each other, and weigh nothing.

    A platform that reaches a tray takes it along. Contacts are those that tests put into `touched`.
    """

    def __init__(self, scene: Scene, timestep: float = 0.01) -> None:
        self.scene = scene
        self.timestep = timestep
        self.poses = np.array([robot.pose for robot in scene.robots], dtype=np.float64).reshape(-1, 3)
        self.twists = np.zeros_like(self.poses)
        self.pushes = np.zeros(len(self.poses))
        self.heights = np.array([_lowered(robot.spec) for robot in scene.robots])
        self.carrier_poses = np.array([item.pose for item in scene.carriers], dtype=np.float64).reshape(-1, 3)
        self.carrier_lifts = np.zeros(len(scene.carriers))
        self.carried_by = np.full(len(scene.carriers), -1, dtype=np.int64)
        self.segments = scene.segments()
        self.pillars = scene.pillars()
        self.led = led_rows(scene.robots)
        self.touched: list[tuple[str, str, float]] = []
        self.lights: list[tuple[int, tuple[int, ...]]] = []
        self.closed = False
        self._boxes: dict[str, np.ndarray] = {}
        self._offsets = np.zeros_like(self.carrier_poses)

    def cast(self, _ring, _rows):
        return None

    def light(self, row, colours):
        self.lights.append((row, tuple(colours)))

    def advance(self, v_body, driven, platforms, told=None) -> None:
        for i in range(len(self.poses)):
            if i in self.led:
                self.poses[i], self.twists[i], self.pushes[i] = told[i, :3], told[i, 3:6], 0.0
                self.poses[i, 2] = wrap(told[i, 2])
                continue
            vx0, vy0, _ = self.twists[i]
            self.twists[i] = v_body[i] if driven[i] else 0.0
            vx, vy, omega = self.twists[i]
            dt = self.timestep
            self.pushes[i] = math.hypot((vx - vx0) / dt - vy * omega, (vy - vy0) / dt + vx * omega)
            x, y, yaw = self.poses[i]
            half = 0.5 * omega * self.timestep
            reach = self.timestep * (math.sin(half) / half if half else 1.0)
            c, s = math.cos(yaw + half), math.sin(yaw + half)
            self.poses[i] = (
                x + reach * (c * vx - s * vy),
                y + reach * (s * vx + c * vy),
                wrap(yaw + omega * self.timestep),
            )
        self.heights[:] = platforms
        for k, item in enumerate(self.scene.carriers):
            by, clearance = int(self.carried_by[k]), item.carrier.clearance
            if by < 0:
                gaps = np.hypot(*(self.poses[:, :2] - self.carrier_poses[k, :2]).T)
                under = (gaps < item.carrier.length / 2) & (self.heights > clearance + 1e-9)
                if under.any():
                    by = int(under.argmax())
                    self.carried_by[k] = by
                    inverse = _relative(self.poses[by], self.carrier_poses[k])
                    self._offsets[k] = inverse
            elif self.heights[by] <= clearance + 1e-9:
                by = self.carried_by[k] = -1
                self.carrier_lifts[k] = 0.0
            if by >= 0:
                self.carrier_lifts[k] = self.heights[by] - clearance
                self.carrier_poses[k] = compose(self.poses[by], self._offsets[k])

    def contacts(self):
        touched, self.touched = self.touched, []
        return touched

    def move_robot(self, row, pose) -> None:
        self.poses[row] = pose
        self.twists[row] = 0.0

    def move_carrier(self, row, pose) -> None:
        self.carrier_poses[row] = pose
        self.carrier_lifts[row] = 0.0
        self.carried_by[row] = -1

    def add_robot(self, placement) -> None:
        self.scene = dataclasses.replace(self.scene, robots=(*self.scene.robots, placement))
        self.poses = np.vstack([self.poses, placement.pose])
        self.twists = np.vstack([self.twists, np.zeros(3)])
        self.pushes = np.append(self.pushes, 0.0)
        self.heights = np.append(self.heights, _lowered(placement.spec))
        self.led = led_rows(self.scene.robots)

    def remove_robot(self, row) -> None:
        robots = self.scene.robots
        self.scene = dataclasses.replace(self.scene, robots=robots[:row] + robots[row + 1 :])
        for name in ("poses", "twists", "pushes", "heights"):
            setattr(self, name, np.delete(getattr(self, name), row, axis=0))
        self.led = led_rows(self.scene.robots)
        self.carrier_lifts[self.carried_by == row] = 0.0
        self.carried_by[self.carried_by == row] = -1
        self.carried_by[self.carried_by > row] -= 1

    def add_box(self, name, pose, size) -> None:
        if name in self._boxes:
            message = f"there is a box '{name}' already"
            raise SimError(message)
        self._boxes[name] = box_segments(np.array(pose), *size)
        self.segments = np.vstack([self.scene.segments(), *self._boxes.values()])

    def remove_box(self, name) -> None:
        if name not in self._boxes:
            message = f"there is no box '{name}'"
            raise SimError(message)
        del self._boxes[name]
        self.segments = np.vstack([self.scene.segments(), *self._boxes.values()])

    def close(self) -> None:
        self.closed = True


def _lowered(spec) -> float:
    return 0.0 if spec.lifter is None else spec.lifter.lowered


def _relative(pose_a, pose_b):
    c, s = math.cos(pose_a[2]), math.sin(pose_a[2])
    dx, dy = pose_b[0] - pose_a[0], pose_b[1] - pose_a[1]
    return c * dx + s * dy, c * dy - s * dx, wrap(pose_b[2] - pose_a[2])


def scene_of(
    robots, carriers=(), *, carriers_too=(), kind="dots", arena="dots_arena", seed=1, **more
) -> Scene:
    """Return a scene with robots and carriers at these poses.

    `robots` may be groups of a scenario, as `carriers_too` are.
    """
    groups = robots
    if not robots or not isinstance(robots[0], dict):
        groups = [{"kind": kind, "place": {"poses": [list(pose) for pose in robots]}}]
    loads = [*({"place": {"poses": [list(pose)]}} for pose in carriers), *carriers_too]
    fields = {
        "version": 1,
        "title": "a test",
        "arena": arena,
        "time_limit": 60.0,
        "robots": groups,
        "carriers": loads,
        "controller": {"name": "random_walk"},
        **more,
    }
    return make_scene(Scenario.model_validate(fields), seed)


@pytest.fixture(scope="session")
def kinematic() -> type[KinematicPhysics]:
    """Return the physics without forces."""
    return KinematicPhysics


@pytest.fixture(scope="session")
def scene():
    """Return the function that makes scenes."""
    return scene_of


class Driven(SimWorld):
    """A world that tests let go on, and whose robots they drive."""

    def run(self, seconds):
        for _ in range(round(seconds / self.timestep)):
            self.step()

    def drive(self, name, v_body):
        device = self.device(name)
        device.motors.drive(Kinematics.of(device.spec).wheels(v_body), math.inf)


@pytest.fixture
def world(scene, kinematic):
    """Return a way to make a world of robots and carriers over bodies that do as they are told."""

    def make(robots, carriers=(), seed=7, physics=kinematic, **more):
        made = scene(robots, carriers, **more)
        return Driven(made, physics(made), np.random.SeedSequence(seed))

    return make
