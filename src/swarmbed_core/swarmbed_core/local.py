"""Robots with their Onboards in this process, stepped with a world."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from swarmbed_core.errors import ConfigError
from swarmbed_core.onboard import Onboard
from swarmbed_core.orders import Act, Enable, Follow, Halt
from swarmbed_core.outfit import outfit

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from swarmbed_core.device import Device
    from swarmbed_core.heading import Zones
    from swarmbed_core.markers import CarrierMarkers, MarkerMap
    from swarmbed_core.orders import Order
    from swarmbed_core.robot import Command, Senses
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Path
    from swarmbed_core.world import World


class LocalRobot:
    """A `Robot` around an Onboard in this process.

    Attributes:
        latest: the senses that its program read last, for recordings.
        log: called with everything that the robot is told to do, if somebody writes it down.
    """

    def __init__(self, onboard: Onboard) -> None:
        """Wrap `onboard`; the caller steps it."""
        self.onboard = onboard
        self._ear = onboard.listen()
        self.latest: Senses | None = None
        self.log: Callable[[Order], None] | None = None

    @property
    def name(self) -> str:
        """Return the robot's unique name."""
        return self.onboard.device.name

    @property
    def spec(self) -> RobotSpec:
        """Return the robot's kind."""
        return self.onboard.device.spec

    def sense(self) -> Senses:
        """Return the robot's current senses."""
        self.latest = self.onboard.senses(self._ear)
        return self.latest

    def act(self, command: Command) -> None:
        """Pass the command to the Onboard, which rejects and counts what it cannot do."""
        self.onboard.act(command)
        if self.log is not None:
            self.log(Act(self.name, command))

    def follow(self, path: Path) -> None:
        """Follow a path from now on.

        Raises:
            PathError: it cannot be followed.
        """
        self.onboard.follow(path)
        if self.log is not None:
            self.log(Follow(self.name, path))

    def halt(self) -> None:
        """Brake, and drop path and velocity."""
        self.onboard.halt()
        if self.log is not None:
            self.log(Halt(self.name))

    def enable(self) -> None:
        """Switch the drives on again."""
        self.onboard.enable()
        if self.log is not None:
            self.log(Enable(self.name))


class LocalSwarm:
    """All robots of a world: steps the world and every Onboard, each at its own rate."""

    def __init__(
        self,
        world: World,
        marker_map: MarkerMap | None = None,
        carrier_markers: CarrierMarkers | None = None,
        localised: Container[str] | None = None,
        zones: Zones | None = None,
        placements: Iterable[RobotPlacement] = (),
    ) -> None:
        """Give every robot of `world` an Onboard.

        Args:
            world: time, truth and parts.
            marker_map: the wall markers for localisation, if there are any.
            carrier_markers: the markers of carriers; by default those of DOTS carriers.
            localised: names of the robots that get the wall markers; by default all.
            zones: the arena's, for localised robots without a zone sense.
            placements: of the robots; those with device makers get composed devices.

        Raises:
            ConfigError: the world's time step is too long for a robot's control rate.
            SwarmbedError: a robot's parts cannot be made.
        """
        self.world = world
        self._marker_map = marker_map
        self._carrier_markers = carrier_markers
        self._zones = zones
        self.robots: list[LocalRobot] = []
        self._open: list[Device] = []
        # If its owner fails before it can close this, nothing stays open. A forked process must not close it.
        weakref.finalize(self, _close, self._open).atexit = False
        placed = {placement.name: placement for placement in placements}
        with ExitStack() as undo:
            undo.callback(self.close)
            for name in world.names:
                robot = self._robot(
                    name, localised=localised is None or name in localised, placement=placed.get(name)
                )
                self.robots.append(robot)
            undo.pop_all()

    @classmethod
    def of_scene(cls, scene: Scene, world: World) -> Self:
        """Return the robots of a world that was made from a scene, with the poses of the scene."""
        localised = {placement.name: placement.pose for placement in scene.robots if placement.localised}
        walls = scene.arena.markers() if localised else None
        made = cls(world, walls, scene.markers, localised, scene.zones, scene.robots)
        for robot in made.robots:
            if robot.name in localised:
                # The initial pose is known; robots without cameras dead-reckon from there.
                robot.onboard.place(localised[robot.name])
        return made

    def add(
        self, name: str, *, localised: bool = False, placement: RobotPlacement | None = None
    ) -> LocalRobot:
        """Give one more robot of the world an Onboard, which is stepped from now on.

        Args:
            name: of the robot, which is in the world already.
            localised: whether it gets the wall markers.
            placement: its placement, for its device makers; without one, all its parts are virtual.

        Raises:
            ConfigError: the world has no robot of this name, the robot already has an Onboard, or the world's
                time step is too long for its control rate.
            SwarmbedError: its parts cannot be made.
        """
        if any(robot.name == name for robot in self.robots):
            message = f"{name} already has an Onboard: name a robot without one"
            raise ConfigError(message)
        robot = self._robot(name, localised=localised, placement=placement)
        names = self.world.names
        before = set(names[: names.index(name)])
        self.robots.insert(sum(other.name in before for other in self.robots), robot)
        return robot

    def _robot(self, name: str, *, localised: bool, placement: RobotPlacement | None) -> LocalRobot:
        device, timestep = self.world.device(name), self.world.timestep
        rate = device.spec.control.rate
        if rate * timestep > 1 + 1e-9:
            message = (
                f"{name} is controlled at {rate:g} Hz, but the world steps at {1 / timestep:g} Hz: use a "
                "shorter time step"
            )
            raise ConfigError(message)
        walls = self._marker_map if localised else None
        if placement is not None:
            device = outfit(placement, device, device.clock)
        self._open.append(device)
        return LocalRobot(Onboard(device, walls, self._carrier_markers, self._zones))

    def remove(self, name: str) -> None:
        """Close a robot's device and stop stepping its Onboard; the robot need not be in the world anymore.

        Raises:
            ConfigError: there is no Onboard of this name.
        """
        for i, robot in enumerate(self.robots):
            if robot.name == name:
                del self.robots[i]
                device = robot.onboard.device
                self._open[:] = [other for other in self._open if other is not device]
                device.close()
                return
        known = ", ".join(robot.name for robot in self.robots[:20]) or "none"
        message = f"no Onboard of a robot '{name}': there are {known}"
        raise ConfigError(message)

    @property
    def real(self) -> bool:
        """Return whether a part of a robot runs in real time: the world can neither hurry nor be reset."""
        return any(robot.onboard.device.real for robot in self.robots)

    def close(self) -> None:
        """Close all devices; nothing the second time."""
        _close(self._open)

    def step(self) -> None:
        """Advance the world by one time step, and step the Onboards that are due."""
        self.world.step()
        now = self.world.time
        for robot in self.robots:
            onboard = robot.onboard
            if onboard.due(now):
                onboard.step()

    def run(self, seconds: float) -> None:
        """Advance by `seconds`, rounded to whole time steps of the world."""
        for _ in range(round(seconds / self.world.timestep)):
            self.step()


def _close(devices: list[Device]) -> None:
    """Close devices, also if one of them fails."""
    with ExitStack() as closing:
        for device in devices:
            closing.callback(device.close)
        # A finalizer holds the list: what is closed may go.
        devices.clear()
