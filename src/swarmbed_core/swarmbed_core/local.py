"""Robots whose Onboards run in this process, in the time of a world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmbed_core.errors import ConfigError
from swarmbed_core.onboard import Onboard

if TYPE_CHECKING:
    from collections.abc import Container

    from swarmbed_core.markers import CarrierMarkers, MarkerMap
    from swarmbed_core.robot import Command, Senses
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.world import World


class LocalRobot:
    """A `Robot` around an Onboard in this process.

    Attributes:
        latest: what its program sensed last: recordings look at it, for `sense` hands out messages once.
    """

    def __init__(self, onboard: Onboard) -> None:
        """Wrap `onboard`, which somebody else steps."""
        self.onboard = onboard
        self.latest: Senses | None = None

    @property
    def name(self) -> str:
        """Return the robot's unique name."""
        return self.onboard.device.name

    @property
    def spec(self) -> RobotSpec:
        """Return what kind of robot it is."""
        return self.onboard.device.spec

    def sense(self) -> Senses:
        """Return what the robot knows now."""
        self.latest = self.onboard.senses()
        return self.latest

    def act(self, command: Command) -> None:
        """Hand the command to the Onboard, which refuses what cannot be done."""
        self.onboard.act(command)


class LocalSwarm:
    """All robots of a world: steps the world and every Onboard, each at its own rate."""

    def __init__(
        self,
        world: World,
        marker_map: MarkerMap | None = None,
        carrier_markers: CarrierMarkers | None = None,
        localised: Container[str] | None = None,
    ) -> None:
        """Give every robot of `world` an Onboard.

        Args:
            world: time, truth and parts.
            marker_map: the wall markers that the robots localise by, if there are any.
            carrier_markers: what carriers look like; the DOTS carriers, if not given.
            localised: names of the robots that know the wall markers; all, if not given.

        Raises:
            ConfigError: the world's steps are too long for a robot's control.
        """
        for name in world.names:
            rate = world.device(name).spec.control.rate
            if rate * world.timestep > 1 + 1e-9:
                message = (
                    f"{name} is controlled at {rate:g} Hz, but the world steps at {1 / world.timestep:g} Hz"
                )
                raise ConfigError(message)
        self.world = world
        self.robots = [
            LocalRobot(
                Onboard(
                    world.device(name),
                    marker_map if localised is None or name in localised else None,
                    carrier_markers,
                )
            )
            for name in world.names
        ]

    def step(self) -> None:
        """Let one of the world's time steps pass, and step the Onboards that are due."""
        self.world.step()
        now = self.world.time
        for robot in self.robots:
            onboard = robot.onboard
            if onboard.due(now):
                onboard.step()

    def run(self, seconds: float) -> None:
        """Let the world's time pass, in whole steps of the world."""
        for _ in range(round(seconds / self.world.timestep)):
            self.step()
