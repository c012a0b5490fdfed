"""DEVS models as controllers, driven by the world's clock: a small adapter to the library xdevs.

The studies of robot-in-the-loop simulation build their robots from atomic and coupled DEVS models. Here such
a model becomes a controller: it receives the robot's senses at an input port and sends commands from an
output port. Between two ticks all its internal events are executed at their own times, which may be finer
than a tick; then it receives the current senses. The only clock is the robot's. In simulated time a model
runs as fast as the world does; in real time the world, or the robot, sets the pace.

A scenario names the model, `controller: {name: devs, model: "my_models:Patrol", parameters: {...}}`. It is
called with a `Who` and the parameters, and returns an `xdevs.models.Component`, atomic or coupled. A package
may register models as entry points `swarmbed.devs_models`.

For one robot its ports are

- `senses` (in): a `swarmbed_core.robot.Senses` in every tick;
- `command` (out): a `swarmbed_core.robot.Command`; its velocity holds until the model outputs another one.

and for a crowd, which has one model for each robot,

- `senses` (in): a `RobotSenses` in every tick;
- `command` (out): (vx, vy, omega), which hold likewise;
- `tell` (out): a row of numbers that the robot's radio broadcasts from then on;
- any port that the model's `listens` names (in): the row that the robot with that number broadcasts, whenever
  it is received. This couples models by radio, with its reach and losses.

xdevs is GPL-3 and not installed by default (`swarmbed_behaviours[devs]`, or `scripts/setup --devs`). Only
models and `devs_engine`, which is imported when a model is to run, import it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from pydantic import Field, field_validator
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError, NotInstalledError, SwarmbedError
from swarmbed_core.plugins import find_plugin
from swarmbed_core.robot import Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec
    from xdevs.models import Component, Port

    from swarmbed_behaviours.devs_engine import Engine

MODELS: Final = "swarmbed.devs_models"
SENSES, COMMAND, TELL = "senses", "command", "tell"
MOTION: Final = ("velocity_body", "path", "cancel")
OTHERS: Final = tuple(item.name for item in fields(Command) if item.name not in MOTION)
LIBRARY: Final = "xdevs"
INSTALL: Final = "scripts/setup --devs"


class DevsError(SwarmbedError):
    """A model breaks a rule at run time."""


@dataclass(frozen=True, slots=True)
class Who:
    """The robot that a model is made for.

    Attributes:
        name: name of the robot; in a crowd, of its kind.
        spec: specification of the robot.
        rng: random generator; in a crowd all robots share it.
        number: number of the robot in its crowd, from 0.
        count: number of robots in the crowd.
    """

    name: str
    spec: RobotSpec
    rng: np.random.Generator
    number: int = 0
    count: int = 1


class RobotSenses(NamedTuple):
    """Senses of one robot of a crowd; see `swarmbed_core.controller.CrowdSenses`."""

    time: float
    ranges: FloatArray
    angles: FloatArray
    heading: float
    zone: float
    twist: FloatArray


class DevsParameters(Part):
    """What a scenario may set.

    Attributes:
        model: `module:Name`, or the name of a model that a package has registered.
        parameters: keyword arguments for the model, besides its `Who`.
    """

    model: str = Field(min_length=1)
    parameters: dict[str, Any] = Field(default_factory=dict)

    @field_validator("model")
    @classmethod
    def _is_there(cls, name: str) -> str:
        try:
            find_model(name)
        except NotInstalledError:
            raise
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return name


class Devs:
    """A DEVS model as the controller of one robot; for crowds see `crowd`."""

    Parameters: ClassVar[type[Part]] = DevsParameters

    def __init__(self, robot: Robot, parameters: DevsParameters, rng: np.random.Generator) -> None:
        """Make the model.

        Raises:
            ConfigError: there is no such model, it lacks a port, or it is for crowds only.
        """
        self._robot = robot
        self._model = make_model(parameters, Who(robot.name, robot.spec, rng))
        if hasattr(self._model, "listens"):
            message = f"model {self._model.name} listens to other robots; set `crowd: true` for the robots"
            raise ConfigError(message)
        self._senses = port_of(self._model, SENSES, "in")
        self._said = [port_of(self._model, COMMAND, "out")]
        self._engine: Engine | None = None
        self._velocity: tuple[float, float, float] | None = None

    @property
    def doing(self) -> str:
        """Return the model's `doing` if it has one, else its phase."""
        model = self._model
        return str(getattr(model, "doing", None) or getattr(model, "phase", model.name))

    @staticmethod
    def crowd(spec: RobotSpec, parameters: DevsParameters, count: int, rng: np.random.Generator) -> DevsCrowd:
        """Return the program of `count` robots, with a model each."""
        return DevsCrowd(spec, parameters, count, rng)

    def tick(self) -> None:
        """Advance the model to the current time, pass it the senses, and execute its commands."""
        senses = self._robot.sense()
        if self._engine is None:
            from swarmbed_behaviours.devs_engine import Engine

            self._engine = Engine([self._model], senses.time)
        command = Command(velocity_body=self._velocity)
        for _, said in self._engine.advance(senses.time, [(self._senses, senses)], self._said):
            if not isinstance(said, Command):
                message = f"model {self._model.name} sent {said!r} at its port {COMMAND}; expected a Command"
                raise DevsError(message)
            command = after(command, said)
        self._velocity = command.velocity_body
        # Send a command in every tick, even an unchanged one: without it the velocity expires.
        self._robot.act(command)


def after(first: Command, then: Command) -> Command:
    """Merge two commands of one tick: the later motion and the later value of each other field win."""
    moves = then.velocity_body is not None or then.path is not None or then.cancel
    wishes = {name: getattr(then, name) for name in MOTION if moves}
    wishes |= {name: value for name in OTHERS if (value := getattr(then, name)) is not None}
    if first.send and then.send:
        wishes["send"] = {**first.send, **then.send}
    return replace(first, **wishes)


class DevsCrowd:
    """A DEVS model for each robot of a crowd, all on one clock; a `CrowdProgram`."""

    def __init__(
        self, spec: RobotSpec, parameters: DevsParameters, count: int, rng: np.random.Generator
    ) -> None:
        """Make the models.

        Raises:
            ConfigError: there is no such model, it lacks a port, or it listens to an unknown robot.
        """
        self._maker = find_model(parameters.model)
        who = (Who(spec.kind, spec, rng, number, count) for number in range(count))
        self._models = [make_model(parameters, one) for one in who]
        self._senses = [port_of(model, SENSES, "in") for model in self._models]
        said = [model.get_out_port(COMMAND) for model in self._models]
        told = [model.get_out_port(TELL) for model in self._models]
        self._outs = [port for port in (*said, *told) if port is not None]
        self._robot_of = {id(port): k for ports in (said, told) for k, port in enumerate(ports)}
        self._ears = self._listen()
        self._velocities = np.zeros((count, 3))
        self._words: FloatArray | None = None
        self._engine: Engine | None = None

    def _listen(self) -> list[tuple[np.ndarray[Any, np.dtype[np.int64]], list[Port | None]]]:
        """Return for each port name the sender that each robot listens to, -1 for none, and the ports."""
        count = len(self._models)
        named = [dict(getattr(model, "listens", {})) for model in self._models]
        ears = []
        for name in dict.fromkeys(name for ports in named for name in ports):
            of = np.array([ports.get(name, -1) for ports in named], dtype=np.int64)
            if of.max() >= count:
                message = f"a model listens to robot {of.max()} at {name}; there are 0 to {count - 1}"
                raise ConfigError(message)
            ports = [
                port_of(model, name, "in") if whom >= 0 else None
                for model, whom in zip(self._models, of, strict=True)
            ]
            ears.append((of, ports))
        return ears

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Advance all models to the current time, pass them senses and messages, and execute their output."""
        # Copies: the world reuses its arrays, and models may keep what they received.
        now, ranges, twists = senses.time, senses.ranges.copy(), senses.twists.copy()
        if self._engine is None:
            from swarmbed_behaviours.devs_engine import Engine

            self._engine = Engine(self._models, now)
        given: list[tuple[Port, Any]] = [
            (port, row) for of, ports in self._ears for port, row in _heard(senses.air.heard(of), ports)
        ]
        given += [
            (port, RobotSenses(now, row, senses.angles, heading, zone, twist))
            for port, row, heading, zone, twist in zip(
                self._senses, ranges, senses.headings.tolist(), senses.zones.tolist(), twists, strict=True
            )
        ]
        for port, value in self._engine.advance(now, given, self._outs):
            robot = self._robot_of[id(port)]
            if port.name == COMMAND:
                self._velocities[robot] = value
                continue
            if self._words is None:
                self._words = np.full((len(self._models), len(value)), math.nan)
            self._words[robot] = value
        v_body[:] = self._velocities
        if self._words is not None:
            senses.air.say(self._words)

    def metrics(self) -> Mapping[str, Any]:
        """Return the models' metrics, if the model's class or factory offers `metrics(models)`."""
        told = getattr(self._maker, "metrics", None)
        return {} if told is None else dict(told(self._models))


def _heard(rows: FloatArray, ports: Sequence[Port | None]) -> Iterator[tuple[Port, FloatArray]]:
    for port, row, there in zip(ports, rows, np.isfinite(rows[:, 0]).tolist(), strict=True):
        if port is not None and there:
            yield port, row


def find_model(name: str) -> Any:
    """Return the class or function that makes a model.

    Raises:
        NotInstalledError: xdevs is missing.
        ConfigError: there is none of this name.
    """
    if find_spec(LIBRARY) is None:
        message = f"controller 'devs' needs {LIBRARY}, which is not installed (it is GPL-3): run {INSTALL}"
        raise NotInstalledError(message)
    return find_plugin(MODELS, name)


def make_model(parameters: DevsParameters, who: Who) -> Component:
    """Return one robot's model.

    Raises:
        ConfigError: there is no such model, or it does not return an xdevs component.
    """
    make = find_model(parameters.model)
    from swarmbed_behaviours.devs_engine import is_model

    model: Component = make(who, **parameters.parameters)
    if not is_model(model):
        message = f"devs_model '{parameters.model}' returned {model!r}; expected an xdevs.models.Component"
        raise ConfigError(message)
    return model


def port_of(model: Component, name: str, way: str) -> Port:
    """Return a port of a model.

    Raises:
        ConfigError: it has none of this name.
    """
    port = model.get_in_port(name) if way == "in" else model.get_out_port(name)
    if port is None:
        ports = model.in_ports if way == "in" else model.out_ports
        known = ", ".join(other.name for other in ports) or "none"
        message = f"model {model.name} has no {way}put port '{name}': there are {known}"
        raise ConfigError(message)
    return port
