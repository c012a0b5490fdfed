"""A transducer that records sensor readings in the robots' own units, with the robots' true poses.

The figures of "Design and analysis of an E-Puck2 robot plug-in for ARGoS" are made from its records.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.readings import Blobs, Readings, dark, readings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_core.local import LocalRobot
    from swarmbed_core.world import CrowdWorld

    from swarmbed_experiments.frame import Look, Setting


class ReadingsParameters(Part):
    """Parameters of `ReadingsOf`.

    Attributes:
        sense: a field of `swarmbed_core.readings.Readings`.
        every: ticks between samples.
        poses: whether to record the robots' true poses too.
    """

    sense: Literal[
        "proximity",
        "light",
        "ground",
        "tof",
        "encoders",
        "camera",
        "acceleration",
        "turning",
        "battery",
    ]
    every: Annotated[int, Field(ge=1)] = 1
    poses: bool = True


class ReadingsOf:
    """The time series of one sense of all robots, as lists by time and robot, named after the sense.

    Robots outside a crowd are recorded as their programs sensed last.

    Metrics:
        SENSE_times: [s] times of the samples; SENSE is the parameter `sense`.
        SENSE: readings, by time and robot.
        SENSE_poses: true poses, by time and robot; only with `poses: true`.
    """

    Parameters: ClassVar[type[Part]] = ReadingsParameters

    def __init__(self, parameters: ReadingsParameters, setting: Setting) -> None:
        """Check that the sense exists.

        Raises:
            ConfigError: the robots do not have the sense, or it is off.
        """
        world = cast("CrowdWorld", setting.world)
        self._crowd = world.crowd() if setting.scene.crowd else None
        self._robots = setting.robots
        self._parameters = parameters
        if self._crowd is not None or any(robot.spec.readings is None for robot in self._robots):
            self._sample()
        self._times: list[float] = []
        self._poses: list[Any] = []
        self._values: list[Any] = []
        self._ticks = 0

    def _sample(self) -> Any:
        """Return the current readings.

        Raises:
            ConfigError: the robots do not have the sense, or it is off.
        """
        sense = self._parameters.sense
        if self._crowd is None:
            all_own = [_own(robot) for robot in self._robots]
        else:
            all_own = [self._crowd.senses().readings]
        found = [None if own is None else getattr(own, sense) for own in all_own]
        rows: list[Any] = [row for row in found if row is not None]
        if not rows or len(rows) < len(found):
            message = (
                f"readings: sense: {sense} is off, or these robots do not have it; "
                "use robots with `readings` in their file, a crowd with it in `crowd.senses`"
            )
            raise ConfigError(message)
        if self._crowd is not None:
            return rows[0]
        return _joined(rows) if sense == "camera" else np.concatenate(rows)

    def tick(self, look: Look) -> None:
        """Record a sample, if one is due."""
        self._ticks += 1
        if self._ticks % self._parameters.every:
            return
        self._times.append(round(look.time, 6))
        if self._parameters.poses:
            self._poses.append(look.robots[:, :3].round(7).tolist())
        now = self._sample()
        self._values.append(_blobs(now) if self._parameters.sense == "camera" else now.tolist())

    def row(self) -> Mapping[str, float]:
        """Return no columns: the samples are metrics."""
        return {}

    def metrics(self) -> Mapping[str, Any]:
        """Return the times, the readings by time and robot, and the poses."""
        name = self._parameters.sense
        course = {f"{name}_times": self._times, name: self._values}
        return {**course, f"{name}_poses": self._poses} if self._parameters.poses else course


def _own(robot: LocalRobot) -> Readings | None:
    """Return the readings of a robot outside a crowd, as sensed last by its program; None without units."""
    of = readings_of(robot.spec)
    senses = robot.latest or robot.onboard.senses()
    return None if of is None else of(senses, robot.spec, dark(robot.spec, 1))


def _joined(rows: list[Blobs]) -> Blobs:
    """Return the blobs of several robots, from those of each."""
    counts = [len(row.pixels) for row in rows]
    return Blobs(
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([row.pixels for row in rows]),
        np.concatenate([row.colours for row in rows]),
    )


def _blobs(blobs: Blobs) -> list[list[list[float]]]:
    """Return the blobs that each robot sees: rows of column, row, red, green, blue."""
    first = blobs.first.tolist()
    rows = [
        [round(column, 4), round(row, 4), *map(float, colour)]
        for (column, row), colour in zip(blobs.pixels.tolist(), blobs.colours.tolist(), strict=True)
    ]
    return [rows[begin:end] for begin, end in pairwise(first)]
