"""My controller: robots walk about, and rest for a moment when something comes near.

Run it from the directory of this file:

    swarmbed run random_walk --set controller.name=my_controller:MyController
    swarmbed tree my_controller:MyController
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from py_trees.composites import Selector, Sequence
from pydantic import Field
from swarmbed_behaviours.toolkit import Check, Escape, TreeController, Wait, Wander
from swarmbed_core.config import Part

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from swarmbed_behaviours.toolkit import Board


class MyControllerParameters(Part):
    """What a scenario may set, such as `--set controller.speed=0.2`.

    Attributes:
        speed: of the walk, in m/s.
        rest: seconds to rest.
    """

    speed: Annotated[float, Field(gt=0, le=2)] = 0.4
    rest: Annotated[float, Field(ge=0, le=60)] = 1.0


class MyController(TreeController):
    """One robot's program, ticked ten times a second of the robot's clock."""

    Parameters: ClassVar[type[Part]] = MyControllerParameters
    parameters: MyControllerParameters

    def make_tree(self) -> Behaviour:
        """Return the tree. A selector ticks its children in order, until one does not fail."""
        board, parameters = self.board, self.parameters
        # Conditions check the senses. `board.senses` has all that the robot knows: docs/reference/senses.md.
        near = Check("something is near", board, self.is_near)
        # With memory, a sequence that has started is completed: rest, then leave in the emptiest direction.
        avoid = Sequence("avoid", memory=True, children=[near, Wait(board, parameters.rest), Escape(board)])
        # Actions drive. Motion must be commanded in every tick, or the robot stops.
        walk = Wander("walk", board, self.draw, speed=parameters.speed, lookahead=1.0, threshold=0.05)
        return Selector("my controller", memory=False, children=[avoid, walk])

    @staticmethod
    def is_near(board: Board) -> bool:
        """Return whether the collision map has something within 0.25 m of the robot's centre."""
        return board.likelihood_at(0.0, 0.0, radius=0.25) > 0.02

    @staticmethod
    def draw(board: Board) -> float:
        """Return a random direction. Use `board.rng` for all randomness, so that runs are reproducible."""
        return float(board.rng.uniform(-math.pi, math.pi))
