"""Building blocks of controllers: conditions, actions and decorators for py_trees 2.

A tree's nodes share one robot's `Board`; `TreeController` ticks them. See docs/toolkit.md.
"""

from swarmbed_behaviours.toolkit.actions import (
    Do,
    Escape,
    GoTo,
    Lift,
    Lower,
    Stop,
    Wait,
    Wander,
    way_likelihood,
)
from swarmbed_behaviours.toolkit.board import Board, TreeController
from swarmbed_behaviours.toolkit.conditions import (
    Carrying,
    Check,
    CollisionAhead,
    Condition,
    GetsOn,
    Heard,
    InZone,
    Leaf,
    PlatformDown,
    PlatformUp,
    SeesCarrier,
    SeesUnderside,
)
from swarmbed_behaviours.toolkit.decorators import Cooldown, OnFailure, TimeLimit
from swarmbed_behaviours.toolkit.docking import (
    BelowCarrier,
    CarrierInSight,
    CentreUnder,
    ComeOut,
    Dock,
    Docking,
    DockingParameters,
    GoToPredock,
    NearPredock,
    NoticesCarrier,
    pick_up,
    tray_of,
)
from swarmbed_behaviours.toolkit.estimate import CarrierEstimate

__all__ = [
    "BelowCarrier",
    "Board",
    "CarrierEstimate",
    "CarrierInSight",
    "Carrying",
    "CentreUnder",
    "Check",
    "CollisionAhead",
    "ComeOut",
    "Condition",
    "Cooldown",
    "Do",
    "Dock",
    "Docking",
    "DockingParameters",
    "Escape",
    "GetsOn",
    "GoTo",
    "GoToPredock",
    "Heard",
    "InZone",
    "Leaf",
    "Lift",
    "Lower",
    "NearPredock",
    "NoticesCarrier",
    "OnFailure",
    "PlatformDown",
    "PlatformUp",
    "SeesCarrier",
    "SeesUnderside",
    "Stop",
    "TimeLimit",
    "TreeController",
    "Wait",
    "Wander",
    "pick_up",
    "tray_of",
    "way_likelihood",
]
