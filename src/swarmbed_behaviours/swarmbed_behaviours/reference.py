"""The reference controller: the paper's tree, to the letter (DOTS paper, IV-B, Figure 12).

Explore, pick up, take to drop zone; any failure, and success in all three, lead back to explore. Each robot
acts on its own senses: no global map, no messages.

Where the paper leaves details open, this controller decides as follows:

- *Equation (1)* is used as printed. Its sigma of 3 makes the directions in the search zone almost uniform:
  0.51 of them are towards -x, not the 0.6 of the text.
- *Which carriers count.* A carrier in the drop zone has been delivered and must stay. The robot remembers, by
  odometry, where it last crossed the border of that zone, and ignores carriers beyond it.
- *The end of a delivery.* "No collision detection" is taken as: nothing within the carrier's circle where it
  will stand, and the carrier across the border by `inset`. Then the robot lowers, comes out through a free
  side, preferably towards the search zone, and explores again.
- *Biased to the drop zone* is equation (1) mirrored: a Gaussian about 0 with the sigma that explore has
  outside the search zone.
- *A robot with a carrier that makes no progress* has failed: explore first puts down the carrier on the
  platform, finds it above the robot, and picks it up again. This also corrects a carrier that has slipped, so
  that its legs look like obstacles.
- *No free path* means that none of ten random directions is free.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from py_trees.composites import Selector, Sequence
from py_trees.decorators import SuccessIsRunning
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.device import Zone
from swarmbed_core.spec import NotNegative, Positive

from swarmbed_behaviours.toolkit import (
    Check,
    ComeOut,
    Docking,
    DockingParameters,
    Escape,
    GetsOn,
    Lower,
    NoticesCarrier,
    SeesUnderside,
    Stop,
    TreeController,
    Wander,
    pick_up,
)

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray

    from swarmbed_behaviours.toolkit import Board

TO_SEARCH_ZONE = math.pi
TO_DROP_ZONE = 0.0
"""Directions of the arena (equation 1)."""

Likelihood = Annotated[float, Field(ge=0, le=1)]


class ReferenceParameters(Part):
    """What a scenario may set.

    Attributes:
        explore_speed: in m/s (IV-B1a).
        carry_speed: in m/s (IV-B1c).
        sigma_search: standard deviation of the direction in the search zone, in radians (equation 1).
        sigma_outside: the same elsewhere.
        lookahead: seconds for which collisions are predicted; assumed.
        carry_lookahead: the same with a carrier; assumed.
        collision: likelihood above which a direction is blocked; assumed.
        carry_collision: the same with a carrier, whose larger circle gives an obstacle less weight.
        margin: metres that are kept free on the side of the robot towards which it drives; assumed.
        carry_margin: the same with a carrier.
        escape_speed: in m/s, of the fallback out of tight places (IV-B4); assumed.
        escape_distance: metres of one such move; assumed.
        stuck_distance: metres that a robot with a carrier must move within `stuck_seconds`; assumed.
        stuck_seconds: time limit for `stuck_distance`, in seconds.
        border: metres before the border of the drop zone within which carriers are ignored too; assumed, for
            the error of dead reckoning.
        inset: metres across the border of the drop zone where carriers are put down; assumed.
        docking: how carriers are picked up.
    """

    explore_speed: Positive = 0.5
    carry_speed: Positive = 0.3
    sigma_search: Positive = 3.0
    sigma_outside: Positive = 1.0
    lookahead: Positive = 0.8
    carry_lookahead: Positive = 1.0
    collision: Likelihood = 0.05
    carry_collision: Likelihood = 0.015
    margin: NotNegative = 0.12
    carry_margin: NotNegative = 0.0
    escape_speed: Positive = 0.1
    escape_distance: Positive = 0.2
    stuck_distance: Positive = 0.3
    stuck_seconds: Positive = 15.0
    border: NotNegative = 0.1
    inset: NotNegative = 0.15
    docking: DockingParameters = DockingParameters()


class Reference(TreeController):
    """The paper's controller."""

    Parameters: ClassVar[type[Part]] = ReferenceParameters
    parameters: ReferenceParameters

    def make_tree(self) -> Behaviour:
        """Return the tree of Figure 12."""
        board, asked = self.board, self.parameters
        self.docking = Docking(board, asked.docking, self._wanted)
        return Sequence(
            "reference",
            memory=True,
            children=[self._explore(), pick_up(self.docking), self._take_to_drop_zone()],
        )

    def _explore(self) -> Behaviour:
        """Return the search: it stops and succeeds as soon as a carrier is seen (IV-B1a)."""
        board, asked = self.board, self.parameters
        found = Sequence("found", memory=False, children=[NoticesCarrier(self.docking), Stop(board)])
        walk = Wander(
            "random walk",
            board,
            self._draw_search,
            speed=asked.explore_speed,
            lookahead=asked.lookahead,
            threshold=asked.collision,
            margin=asked.margin,
        )
        # With its platform up, a robot would collide with the next carrier.
        lowered = Selector(
            "platform", memory=False, children=[Check("is down", board, _is_down), Lower(board)]
        )
        out = Sequence(
            "leave brought carrier",
            memory=True,
            children=[SeesUnderside(board), ComeOut(self.docking, lambda _: TO_SEARCH_ZONE)],
        )
        search = SuccessIsRunning(
            "search", Selector("walk", memory=True, children=[out, walk, self._escape()])
        )
        return Sequence(
            "explore",
            memory=False,
            children=[lowered, Selector("look", memory=False, children=[found, search])],
        )

    def _take_to_drop_zone(self) -> Behaviour:
        """Return the way home and the delivery (IV-B1c)."""
        board, asked = self.board, self.parameters
        walk = Wander(
            "biased walk",
            board,
            self._draw_drop,
            speed=asked.carry_speed,
            lookahead=asked.carry_lookahead,
            threshold=asked.carry_collision,
            margin=asked.carry_margin,
        )
        there = Check("in drop zone, nothing near", board, self._can_lower)
        carry = SuccessIsRunning("carry", Selector("walk", memory=True, children=[walk, self._escape()]))
        gets_on = GetsOn(board, asked.stuck_distance, asked.stuck_seconds)
        on_the_way = Sequence("on the way", memory=False, children=[gets_on, carry])
        arrive = Selector("arrive", memory=False, children=[there, on_the_way])
        out = ComeOut(self.docking, lambda _: TO_SEARCH_ZONE)
        return Sequence("take to drop zone", memory=True, children=[arrive, Lower(board), out])

    def _escape(self) -> Behaviour:
        asked = self.parameters
        return Escape(self.board, speed=asked.escape_speed, distance=asked.escape_distance)

    def _draw_search(self, board: Board) -> float:
        """Return a direction by equation (1)."""
        asked = self.parameters
        sigma = asked.sigma_search if board.zone is Zone.SEARCH else asked.sigma_outside
        return float(board.rng.normal(TO_SEARCH_ZONE, sigma))

    def _draw_drop(self, board: Board) -> float:
        """Return a direction by equation (1), turned towards the drop zone."""
        return float(board.rng.normal(TO_DROP_ZONE, self.parameters.sigma_outside))

    def _wanted(self, board: Board, place_odom: FloatArray) -> bool:
        """Return whether a carrier at this place still has to be delivered."""
        past = board.past_drop_border(place_odom)
        if past is None:
            # The border is unknown until it is crossed. In the search zone the robot is far from it.
            return board.zone is Zone.SEARCH
        return past < -self.parameters.border

    def _can_lower(self, board: Board) -> bool:
        """Return whether the carrier may be put down here."""
        if board.zone is not Zone.DROP:
            return False
        past = board.past_drop_border(board.pose)
        inside = past is None or past >= self.parameters.inset
        return inside and board.likelihood_at(0.0, 0.0) <= self.parameters.carry_collision


def _is_down(board: Board) -> bool:
    """Return whether the platform is lowered, and nothing is on it."""
    return board.platform_down and not board.carrying
