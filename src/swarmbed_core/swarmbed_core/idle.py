"""The controller of robots that have nothing to do: those of rehearsals, and where none has a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmbed_core.controller import NoParameters

if TYPE_CHECKING:
    import numpy as np

    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec


class Idle:
    """A program that does nothing."""

    Parameters = NoParameters
    doing = "idle"

    def __init__(self, robot: Robot, parameters: NoParameters, rng: np.random.Generator) -> None:
        """Store the robot."""
        del parameters, rng
        self._robot = robot

    def tick(self) -> None:
        """Read the senses, so that their code is compiled and loaded."""
        self._robot.sense()

    @staticmethod
    def crowd(spec: RobotSpec, parameters: NoParameters, count: int, rng: np.random.Generator) -> IdleCrowd:
        """Return the program for a crowd."""
        del spec, parameters, count, rng
        return IdleCrowd()


class IdleCrowd:
    """A program that keeps a crowd standing still."""

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Command zero velocities."""
        del senses
        v_body[:] = 0.0


IDLE = f"{Idle.__module__}:{Idle.__name__}"
