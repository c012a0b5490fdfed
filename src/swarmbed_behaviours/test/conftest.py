"""What the tests of behaviours share: a robot whose senses a test sets, and robots in an arena."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from swarmbed_core.camera import cameras_of, project_k
from swarmbed_core.device import CornerReading
from swarmbed_core.geometry import between, compose
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.onboard import Onboard
from swarmbed_core.robot import Command, Senses
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import RobotSpec
from swarmbed_core.watchdog import Pace

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeRobot:
    """Senses what it is told to, and keeps what it is commanded."""

    def __init__(self, kind: str = "dots") -> None:
        """Stand at the origin."""
        self.name = f"{kind}1"
        self.spec = RobotSpec.load(kind)
        self.senses = Senses(0.0, np.zeros(3), np.zeros(3), heading=0.0, lifter_height=0.145)
        self.commands: list[Command] = []

    def set(self, **changes: Any) -> None:
        """Change some senses."""
        self.senses = replace(self.senses, **changes)

    def sense(self) -> Senses:
        """Return what was set."""
        return self.senses

    def act(self, command: Command) -> None:
        """Keep a command."""
        self.commands.append(command)


@pytest.fixture
def fake() -> FakeRobot:
    """Return a DOTS robot whose senses a test sets."""
    return FakeRobot()


@pytest.fixture
def fake_of() -> Callable[[str], FakeRobot]:
    """Return a way to make such robots of other kinds."""
    return FakeRobot


@pytest.fixture
def arena() -> Callable[..., tuple[MemoryWorld, LocalSwarm]]:
    """Return a way to put robots of some kinds into the DOTS arena; they do not know the walls' markers."""

    def make(*kinds: str, seed: int = 1) -> tuple[MemoryWorld, LocalSwarm]:
        world = MemoryWorld.of(kinds or ("dots",), arena="dots_arena", seed=seed)
        swarm = LocalSwarm(world)
        swarm.run(0.1)
        return world, swarm

    return make


class CarrierEyes:
    """Cameras that see one carrier, wherever it is put; its images are 70 ms late.

    While it is on the platform it goes with the robot, unless it is taken away.
    """

    def __init__(self, world: MemoryWorld, name: str, pose: tuple[float, float, float]) -> None:
        """Put a carrier somewhere in `map`."""
        self.world, self.name, self.pose = world, name, np.array(pose)
        spec = world.device(name).spec
        assert spec.carrier is not None
        markers = CarrierMarkers.load("dots_carrier")
        self.tray = spec.carrier
        self.face = markers.side_corners(spec.carrier.clearance)
        under = markers.underside_map(spec.carrier.clearance)
        self.under_ids, self.under = under.ids, under.corners()
        self.cameras = cameras_of(spec)
        self.blind = False
        self._pace = Pace(10.0)
        self._late: list[CornerReading] = []

    def read(self) -> list[CornerReading]:
        """Return what was seen 70 ms ago."""
        now = self.world.time
        if self._pace.due(now) and not self.blind:
            self._late += [self._look(name, now) for name in self.cameras]
        come = [reading for reading in self._late if reading.stamp <= now - 0.07]
        self._late = [reading for reading in self._late if reading.stamp > now - 0.07]
        return [reading for reading in come if len(reading.ids)]

    def clearance(self) -> float:
        """Return how far the robot's hull is from the nearest leg."""
        robot = self.world.truth()[self.world.index(self.name), :2]
        legs = [compose(self.pose, (x, y, 0.0))[:2] for x, y in legs_of(self.tray)]
        return min(float(np.hypot(*(leg - robot))) for leg in legs) - 0.125 - self.tray.leg_radius

    def _look(self, name: str, now: float) -> CornerReading:
        carrier = between(self.world.truth()[self.world.index(self.name), :3], self.pose)
        found: list[tuple[int, Any]] = []
        if name == "cam4":
            for number, corners in zip(self.under_ids.tolist(), self.under, strict=True):
                found.append((number, self._image(name, carrier, corners)))
        else:
            for k in range(4):
                turned = compose(carrier, (0.0, 0.0, k * np.pi / 2))
                side = compose(turned, (self.tray.length / 2, 0.0, 0.0))
                found.append((100, self._image(name, side, self.face)))
        seen = [(number, image) for number, image in found if image is not None]
        ids = np.array([number for number, _ in seen], dtype=np.int64)
        return CornerReading(now, name, ids, np.array([image for _, image in seen]).reshape(-1, 4, 2))

    def _image(self, name: str, frame: Any, corners: Any) -> Any:
        image = np.empty((4, 2))
        for k, corner in enumerate(corners):
            x, y, _ = compose(frame, (corner[0], corner[1], 0.0))
            u, v, inside = project_k(self.cameras[name].numbers, x, y, corner[2])
            if not inside:
                return None
            image[k] = u, v
        step = np.roll(image, -1, axis=0) - image
        turn = step[:, 0] * np.roll(step[:, 1], -1) - step[:, 1] * np.roll(step[:, 0], -1)
        return image if turn.min() > 0 and np.hypot(*step.T).min() > 16 else None


@pytest.fixture
def carrier_arena() -> Callable[..., tuple[MemoryWorld, LocalSwarm, CarrierEyes]]:
    """Return a way to put a DOTS robot and a carrier into the DOTS arena, and another robot if wanted."""

    def make(
        robot: tuple[float, float, float],
        carrier: tuple[float, float, float],
        other: tuple[float, float, float] | None = None,
    ) -> tuple[MemoryWorld, LocalSwarm, CarrierEyes]:
        world = MemoryWorld.of(["dots"] * (1 if other is None else 2), arena="dots_arena", seed=1)
        world.teleport("dots1", robot)
        if other is not None:
            world.teleport("dots2", other)
        eyes = CarrierEyes(world, "dots1", carrier)
        swarm = LocalSwarm(world)
        swarm.robots[0] = LocalRobot(Onboard(replace(world.device("dots1"), cameras=eyes)))
        swarm.run(0.5)
        return world, swarm, eyes

    return make
