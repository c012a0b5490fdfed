"""My package's controller: robots drive straight on, and turn away from what comes near."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.robot import Command

if TYPE_CHECKING:
    from swarmbed_core.robot import Robot


class MyPackageParameters(Part):
    """What a scenario may set, such as `--set controller.speed=0.2`.

    Attributes:
        speed: [m/s] of the drive.
        margin: [m] distance of whatever a robot turns away from.
    """

    speed: Annotated[float, Field(gt=0, le=1)] = 0.2
    margin: Annotated[float, Field(gt=0, le=2)] = 0.35


class MyPackage:
    """One robot's program, ticked ten times a second of the robot's clock."""

    Parameters: ClassVar[type[Part]] = MyPackageParameters

    def __init__(self, robot: Robot, parameters: MyPackageParameters, rng: np.random.Generator) -> None:
        """Use `rng` for all randomness, so that runs are reproducible."""
        self.robot, self.parameters, self.rng = robot, parameters, rng
        self.doing, self.turn = "drive", 0.0

    def tick(self) -> None:
        """Sense and act. Repeat a velocity in every tick, or the robot stops."""
        points = self.robot.sense().points_body
        ahead = points is not None and bool(
            np.any((points[:, 0] > 0) & (np.hypot(*points.T) < self.parameters.margin + 0.08))
        )
        if not ahead:
            self.doing, self.turn = "drive", 0.0
            self.robot.act(Command(velocity_body=(self.parameters.speed, 0.0, 0.0)))
            return
        if self.doing == "drive":
            self.doing, self.turn = "turn", float(self.rng.choice([-2.0, 2.0]))
        self.robot.act(Command(velocity_body=(0.0, 0.0, self.turn)))
