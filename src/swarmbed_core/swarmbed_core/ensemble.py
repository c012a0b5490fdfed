"""The robots of a world with what drives each: the part of a run that needs no experimental frame.

It is a `Play`: a `Runner` steps it, orders change it, observers look on. Robots may join and leave at any
time; whoever keeps data by robot goes by the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_core.local import LocalSwarm
from swarmbed_core.observing import Audience
from swarmbed_core.orders import (
    Act,
    Enable,
    Follow,
    Halt,
    Join,
    Leave,
    OrderError,
    Orders,
    Say,
    Told,
    placement_of,
)
from swarmbed_core.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from swarmbed_core.controller import Controller
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.observing import Event
    from swarmbed_core.orders import Order
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import CarrierTruth, TaskWorld

KNOWN = 20
"""Most names that a message lists."""


class Elsewhere:
    """Stands for a program that runs elsewhere: in another process, or in a person's hands.

    Attributes:
        doing: the activity it reports.
    """

    def __init__(self) -> None:
        self.doing = ""

    def tick(self) -> None:
        """Do nothing: the program is ticked elsewhere."""


class Ensemble:
    """A world, its robots and their programs.

    Attributes:
        scene: placements and arena at the start.
        world: owner of time and truth.
        timestep: of the world, in seconds.
        swarm: the robots' Onboards; None for a crowd.
        robots: the robots that are there now, in the order of the world's names; empty for a crowd.
        specs: specifications of all robots that were ever there, by name.
        controllers: their programs, in the same order.
        labels: what to call these in messages.
        orders: the way in, for any thread.
        audience: the observers.
        runner: the loop.
        on_change: called with the name of each robot that joins or leaves.
    """

    def __init__(self, scene: Scene, world: TaskWorld) -> None:
        """Give each robot an Onboard; `drive` or `drive_from_elsewhere` gives each a program.

        Args:
            scene: that the world was made from.
            world: to run.
        """
        self.scene = scene
        self.world = world
        self.timestep = world.timestep
        self.swarm = None if scene.crowd else LocalSwarm.of_scene(scene, world)
        self.robots: Sequence[LocalRobot] = () if self.swarm is None else self.swarm.robots
        self._tracked = {item.name for item in scene.robots if item.tracked is not None}
        self.specs = {placement.name: placement.spec for placement in scene.robots}
        self.controllers: list[Controller] = []
        self.labels: list[str] = []
        self.on_change: Callable[[str], None] | None = None
        self.orders = Orders()
        self.audience = Audience()
        self.runner = Runner(self, orders=self.orders, audience=self.audience)

    def drive(self, controller: Controller, label: str) -> None:
        """Give the next robot without one a program."""
        self.controllers.append(controller)
        self.labels.append(label)

    def drive_from_elsewhere(self) -> None:
        """Let the next robot without a program be driven from elsewhere; what it is told is written down."""
        robot = self.robots[len(self.controllers)]
        robot.log = self.runner.note
        self.drive(Elsewhere(), f"{robot.name}: driven from elsewhere")

    @property
    def time(self) -> float:
        """Return the world's time."""
        return self.world.time

    @property
    def awaited(self) -> AbstractSet[str]:
        """Return the names of the robots that get a program at the start, in this process or elsewhere."""
        groups = self.scene.scenario.robots
        return {item.name for item in self.scene.robots if groups[item.group].driver == "program"}

    @property
    def dead(self) -> AbstractSet[str]:
        """Return the names of the robots that an experiment has killed."""
        return frozenset()

    @property
    def tracked(self) -> tuple[str, ...]:
        """Return the names of the robots that are led from outside."""
        return tuple(name for name in self.world.names if name in self._tracked)

    @property
    def real_time_only(self) -> str:
        """Return why the world must run in real time and cannot be reset; empty if it need not."""
        real = [robot.name for robot in self.robots if robot.onboard.device.real]
        if real:
            return f"{', '.join(real[:KNOWN])}: real parts run in real time"
        led = self.tracked
        return f"{', '.join(led[:KNOWN])}: tracked robots move in real time" if led else ""

    # The play

    def step(self) -> None:
        """Advance the world by one time step, and run the Onboards that are due."""
        self.stepper()

    @property
    def stepper(self) -> Callable[[], None]:
        """Return what `step` calls, for many steps in a row."""
        return self.world.step if self.swarm is None else self.swarm.step

    def think(self) -> bool:
        """Return False: nothing is judged, so there is no last tick."""
        return False

    def obey(self, order: Order) -> Any:
        """Carry out an order about robots, and return the name of a robot that joined.

        Raises:
            SwarmbedError: it cannot be carried out.
        """
        match order:
            case Act(name, command):
                self.robot(name).onboard.act(command)
            case Follow(name, path):
                self.robot(name).onboard.follow(path)
            case Halt(name):
                self.robot(name).onboard.halt()
            case Enable(name):
                self.robot(name).onboard.enable()
            case Say(name, doing):
                self._program_elsewhere(name).doing = doing
            case Told(tellings):
                self.world.tell(tellings)
            case Join():
                return self.join(order)
            case Leave(name):
                self.leave(name)
            case _:
                message = f"{type(order).__name__}: not an order about robots"
                raise OrderError(message)
        return None

    def robot(self, name: str) -> LocalRobot:
        """Return a robot by its name.

        Raises:
            OrderError: there is none.
        """
        for robot in self.robots:
            if robot.name == name:
                return robot
        known = ", ".join(robot.name for robot in self.robots[:KNOWN])
        more = ", ..." if len(self.robots) > KNOWN else ""
        why = f"there are {known}{more}" if known else "there are none that take orders"
        message = f"no robot '{name}': {why}"
        raise OrderError(message)

    def _program_elsewhere(self, name: str) -> Elsewhere:
        """Return the stand-in for a robot's program."""
        controller = self.controllers[self.robots.index(self.robot(name))]
        if not isinstance(controller, Elsewhere):
            message = f"{name} has a program of its own, which says itself what it is doing"
            raise OrderError(message)
        return controller

    def say(self, doing: Mapping[str, str]) -> None:
        """Set what the programs elsewhere are doing, by robot, and write down what changes."""
        for robot, controller in zip(self.robots, self.controllers, strict=True):
            if isinstance(controller, Elsewhere):
                said = doing.get(robot.name, "")
                if said != controller.doing:
                    controller.doing = said
                    self.runner.note(Say(robot.name, said))

    # Joining and leaving

    def join(self, order: Join) -> str:
        """Add a robot to the world, and return its name.

        Raises:
            SwarmbedError: it cannot join.
        """
        placement = placement_of(order, self.world.names)
        if self.swarm is None and placement.tracked is None:
            message = "only tracked robots can join a crowd; leave out `crowd` in the scenario"
            raise OrderError(message)
        self.world.add_robot(placement)
        # Not before: the world refuses names that are taken.
        self.specs[placement.name] = placement.spec
        if placement.tracked is None:
            self._tracked.discard(placement.name)
        else:
            self._tracked.add(placement.name)
        if self.swarm is None:
            # Beside a crowd, it has no Onboard.
            self.met(placement.name)
            return placement.name
        try:
            robot = self.swarm.add(placement.name, localised=placement.localised, placement=placement)
            if placement.localised:
                robot.onboard.place(placement.pose)
            self.employ(robot, order)
            self.met(placement.name)
        except BaseException:
            self._forget(placement.name)
            del self.controllers[len(self.robots) :], self.labels[len(self.robots) :]
            raise
        return placement.name

    def employ(self, robot: LocalRobot, order: Join) -> None:
        """Give a robot that joins its program.

        Raises:
            SwarmbedError: the program cannot be made.
        """
        if order.controller:
            message = f"controller {order.controller}: this world runs no programs; leave it out"
            raise OrderError(message)
        if robot is not self.robots[-1]:
            raise AssertionError
        self.drive_from_elsewhere()

    def leave(self, name: str) -> None:
        """Remove a robot from the world.

        Raises:
            SwarmbedError: there is none of this name.
        """
        if self.swarm is None and name in self.tracked:
            self.world.remove_robot(name)
            self.met(name)
            return
        at = self.robots.index(self.robot(name))
        self._forget(name)
        del self.controllers[at], self.labels[at]
        self.met(name)

    def met(self, name: str) -> None:
        """Take note of a robot that has joined or left.

        Raises:
            SwarmbedError: it cannot stay.
        """
        if self.on_change is not None:
            self.on_change(name)

    def _forget(self, name: str) -> None:
        """Remove everything that exists of a robot."""
        if self.swarm is not None and any(robot.name == name for robot in self.swarm.robots):
            self.swarm.remove(name)
        if name in self.world.names:
            self.world.remove_robot(name)

    # What observers see

    def see_names(self) -> tuple[str, ...]:
        """Return the names of the robots."""
        names = self.world.names
        return names if isinstance(names, tuple) else tuple(names)

    def see_robots(self) -> FloatArray:
        """Return the robots' poses and twists."""
        return self.world.truth()

    def see_carriers(self) -> CarrierTruth:
        """Return the carriers."""
        return self.world.carriers()

    def see_lifts(self) -> FloatArray:
        """Return the heights of the robots' platforms, NaN without one."""
        if self.swarm is None:
            return np.full(len(self.world.names), np.nan)
        # None becomes NaN.
        return np.array([robot.onboard.lifter_height for robot in self.robots], dtype=np.float64)

    def see_leds(self) -> tuple[tuple[int, ...], ...]:
        """Return the colours of the robots' lights; empty for a crowd."""
        return tuple(robot.onboard.leds for robot in self.robots)

    def see_doing(self) -> tuple[str, ...]:
        """Return what the programs report."""
        return tuple(controller.doing for controller in self.controllers)

    def see_events(self) -> list[Event]:
        """Return no events."""
        return []

    def see_standing(self) -> str:
        """Return nothing: nothing is judged."""
        return ""

    def see_metrics(self) -> Mapping[str, Any]:
        """Return nothing: nothing is measured."""
        return {}

    def close(self) -> None:
        """Refuse further orders, close the robots' devices, and release the world's resources."""
        self.orders.close()
        if self.swarm is not None:
            self.swarm.close()
        self.world.close()
