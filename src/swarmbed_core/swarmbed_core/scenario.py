"""A scenario: one YAML file that says who does what where, and how it is judged.

The file holds the world, the arena, robots, carriers, obstacles, the controller, the radio, the seed, the
time limit and the experimental frame. `swarmbed_core.scene` turns it into places for everything.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from swarmbed_core.config import ConfigFile, Part, anchored
from swarmbed_core.heading import Area
from swarmbed_core.spec import Fraction, NotNegative, Positive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Coordinate = Annotated[float, Field(ge=-1000, le=1000)]
Angle = Annotated[float, Field(ge=-2 * math.pi, le=2 * math.pi)]
Pose = tuple[Coordinate, Coordinate, Angle]
Cell = Annotated[int, Field(ge=-100, le=100)]
Byte = Annotated[int, Field(ge=0, le=255)]
Count = Annotated[int, Field(ge=0, le=100_000)]


class Named(Part):
    """Something found by name, with parameters of its own beside it."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: Annotated[str, Field(min_length=1)]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return what stands beside the name; whoever the name means checks it."""
        return dict(self.model_extra or {})


class Line(Part):
    """Things one behind the other, all facing the same way.

    Attributes:
        start: `[x, y, yaw]` of the first one, in m and rad.
        spacing: [m] distance from one to the next.
    """

    start: Pose
    spacing: Positive

    def pose(self, k: int) -> Pose:
        """Return the pose of one of them, 0 for the first."""
        x, y, yaw = self.start
        back = k * self.spacing
        return x - back * math.cos(yaw), y - back * math.sin(yaw), yaw


class Place(Part):
    """Where things stand: at random in a zone of the arena or an area, in a line, or at the poses given.

    Attributes:
        zone: at random in a zone of the arena, or anywhere in it.
        area: at random in a rectangle: `x_min`, `x_max`, `y_min`, `y_max` in m, each optional.
        poses: `[x, y, yaw]` of each, in m and rad.
        line: one behind the other.
        yaw: direction of what is placed at random, in rad; at random too, if not given.
        gap: [m] distance that what is placed at random keeps from all else; if not given, 0.05 for robots and
            0.35 for carriers, so that a robot fits between.
    """

    zone: Literal["search", "drop", "anywhere"] | None = None
    area: Area | None = None
    poses: tuple[Pose, ...] | None = None
    line: Line | None = None
    yaw: Angle | None = None
    gap: NotNegative | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Place:
        if sum(given is not None for given in (self.zone, self.area, self.poses, self.line)) != 1:
            message = "give one of zone, area, line and poses"
            raise ValueError(message)
        return self

    def pose(self, k: int) -> Pose | None:
        """Return where the thing of this number stands, None if at random."""
        if self.line is not None:
            return self.line.pose(k)
        return None if self.poses is None else self.poses[k]

    @property
    def at_random(self) -> bool:
        """Return whether things are placed at random."""
        return self.poses is None and self.line is None


class Several(Part):
    """Several things of one kind, somewhere."""

    count: Count | None = None
    place: Place

    @model_validator(mode="after")
    def _count_fits(self) -> Several:
        poses = self.place.poses
        if poses is None and self.count is None:
            message = "count: missing; how many are to be placed?"
            raise ValueError(message)
        if poses is not None and self.count not in {None, len(poses)}:
            message = f"count is {self.count}, but place.poses has {len(poses)}"
            raise ValueError(message)
        return self

    @property
    def number(self) -> int:
        """Return how many there are."""
        return len(self.place.poses or ()) if self.count is None else self.count


class CrowdOptions(Part):
    """How robots are driven as a crowd.

    Attributes:
        step: seconds of a step of the world; the world's own if not given. A tenth of a second is a whole
            number of them.
        rate: how often distance sensors measure at most, in Hz; as often as they do, if not given.
        senses: the ones that are on: distance sensors by their names, and what `readings` in the robot's file
            offers; all of them if not given.
        battery: the model by which batteries run down, of those that `readings` offers; none if not given.
    """

    step: Annotated[float, Field(ge=0.001, le=0.1)] | None = None
    rate: Annotated[float, Field(gt=0, le=1000)] | None = None
    senses: tuple[str, ...] | None = None
    battery: str | None = None

    @field_validator("step")
    @classmethod
    def _ticks_are_whole(cls, step: float | None) -> float | None:
        if step is not None and abs(0.1 / step - round(0.1 / step)) > 1e-9:
            message = f"step {step}: 0.1 s must be a whole number of steps, as with 0.01, 0.05 and 0.1"
            raise ValueError(message)
        return step


class Robots(Several):
    """Robots of one kind.

    Attributes:
        count: how many; the number of the poses, if there are any.
        place: where they start.
        kind: a name from config/robots, or a file.
        name: of the first without its number; the kind's, if not given.
        localised: whether they find their pose in the arena by the markers on its walls, if it has any.
        crowd: whether, and if wished how, their controller runs in its form for thousands, without an
            Onboard each.
    """

    kind: str = "dots"
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    localised: bool = False
    crowd: bool | CrowdOptions = False


class Carriers(Several):
    """Carriers that robots drive under and lift.

    Every carrier has a marker id of its own.

    Attributes:
        count: how many; the number of the poses, if there are any.
        place: where they stand; with `joined`, where the middle of the whole stands.
        payload: [kg] mass on each.
        joined: cells [column, row] of a grid, each filled by a carrier, which stand edge to edge.
    """

    payload: NotNegative = 0.0
    joined: tuple[tuple[Cell, Cell], ...] | None = None

    @model_validator(mode="after")
    def _cells_differ(self) -> Carriers:
        if self.joined is None:
            return self
        cells = set(self.joined)
        if not cells or len(cells) != len(self.joined):
            message = "joined: cells [column, row] that differ, at least one"
            raise ValueError(message)
        reached, edge = set(), {self.joined[0]}
        while edge:
            reached |= edge
            beside = {(c + dc, r + dr) for c, r in edge for dc, dr in ((1, 0), (-1, 0), (0, 1), (0, -1))}
            edge = (beside & cells) - reached
        if reached != cells:
            message = f"joined: {sorted(cells - reached)} touch none of the others"
            raise ValueError(message)
        return self


class BoxObstacle(Part):
    """A box that stands fast.

    Attributes:
        shape: box.
        size: [m] length and width.
        height: [m] height.
        pose: `[x, y, yaw]` of its middle, in m and rad.
    """

    shape: Literal["box"]
    size: tuple[Positive, Positive]
    height: Positive = 0.3
    pose: Pose


class CylinderObstacle(Part):
    """A cylinder that stands fast.

    Attributes:
        shape: cylinder.
        radius: [m] radius.
        height: [m] height.
        pose: `[x, y, yaw]` of its middle, in m and rad.
    """

    shape: Literal["cylinder"]
    radius: Positive
    height: Positive = 0.3
    pose: Pose


Obstacle = Annotated[BoxObstacle | CylinderObstacle, Field(discriminator="shape")]


class Light(Part):
    """A lamp: light sensors and cameras notice it, bodies do not.

    Attributes:
        place: x, y and height above the floor.
        intensity: without a unit, as in equation (2) of the e-puck2 paper; the measured lamp is 1.
        colour: red, green and blue that cameras see.
    """

    place: tuple[Coordinate, Coordinate, NotNegative]
    intensity: NotNegative = 1.0
    colour: tuple[Byte, Byte, Byte] = (255, 255, 255)


class RadioConditions(Part):
    """What happens on the air, over what the robots' radios do by themselves.

    Attributes:
        loss: share of the receptions that fail; that of each robot's file, if not given.
    """

    loss: Fraction | None = None


class Frame(Part):
    """The experimental frame: what disturbs a run, what is measured, and what counts as success.

    Attributes:
        generators: what disturbs the run, each `{name: ..., parameter: ...}`.
        transducers: what is measured.
        acceptors: what decides the run; one that rejects is enough.
    """

    generators: tuple[Named, ...] = ()
    transducers: tuple[Named, ...] = tuple(
        Named(name=name) for name in ("carriers", "travel", "contacts", "energy", "messages")
    )
    acceptors: Annotated[tuple[Named, ...], Field(min_length=1)] = (Named(name="elapsed"),)


class Scenario(ConfigFile):
    """One experiment. Relative paths in its file are relative to that file.

    Attributes:
        version: version of the format: 1.
        title: what it is, in a line; results and pictures show it.
        name: name of its runs; the file's name without .yaml, if not given.
        world: the world's name: `mujoco`, `planar`, `gazebo`, or one of a package's.
        arena: a name from worlds, or a file.
        seed: seed of places and of all noise.
        time_limit: [s] time of the world after which the run is over.
        noise: whether wheels slip and sensors err.
        robots: groups of robots, in the order of their names.
        carriers: groups of carriers.
        carrier_markers: codes on the carriers: a name from config/markermaps, or a file.
        obstacles: boxes and cylinders.
        lights: lamps, for light sensors and cameras of e-puck2s.
        controller: the robots' program: `{name: ..., parameter: ...}`.
        radio: conditions on the air: `{loss: 0.1}`.
        frame: generators, transducers and acceptors.
        vision: `corners` works out where the corners of markers are in the cameras' images; `pixels` renders
            the images and lets the robots' detector look for them, which takes a hundred times as long.
        exposure: seconds of light of an image, by which it is blurred when the robot moves; what
            config/imaging says, if not given.
    """

    FOLDER: ClassVar[str] = "config/scenarios"

    title: str
    name: Annotated[str, Field(pattern=r"^[^/\x00]+$", max_length=200)] | None = None
    world: str = "mujoco"
    arena: str = "dots_arena"
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    time_limit: Annotated[float, Field(gt=0, le=1e6)]
    noise: bool = True
    vision: Literal["corners", "pixels"] = "corners"
    exposure: Annotated[float, Field(ge=0, le=0.03)] | None = None
    robots: Annotated[tuple[Robots, ...], Field(min_length=1)]
    carriers: tuple[Carriers, ...] = ()
    carrier_markers: str = "dots_carrier"
    obstacles: tuple[Obstacle, ...] = ()
    lights: tuple[Light, ...] = ()
    controller: Named
    radio: RadioConditions = RadioConditions()
    frame: Frame = Frame()

    @classmethod
    def anchor(cls, data: Any, base: Path) -> None:
        """Make the paths of arena, robots and markers absolute, and those of files that programs are given.

        Only a program knows which of its parameters are paths: those that lead to a YAML file are.
        """
        _change_paths(data, base, lambda path: anchored(path, base))

    def seen_from(self, base: Path) -> Scenario:
        """Return the scenario with the paths of files below a directory relative to it."""

        def relative(path: str) -> str:
            file = Path(path)
            return str(file.relative_to(base)) if file.is_relative_to(base) else path

        data = self.model_dump(mode="json")
        _change_paths(data, base, relative)
        return type(self).model_validate(data)


def _change_paths(data: Any, base: Path, change: Callable[[str], str]) -> None:
    """Change, in place, the names and paths of files in a scenario's data."""
    if not isinstance(data, dict):
        return
    places: list[tuple[Any, str]] = [(data, field) for field in ("arena", "carrier_markers")]
    robots, frame = data.get("robots"), data.get("frame")
    places += [(group, "kind") for group in (robots if isinstance(robots, list) else ())]
    programs = [data.get("controller")]
    for some in frame.values() if isinstance(frame, dict) else ():
        programs += some if isinstance(some, list) else []
    for named in programs:
        for field, value in named.items() if isinstance(named, dict) else ():
            if field != "name" and isinstance(value, str) and names_file(value, base):
                places.append((named, field))
    for owner, field in places:
        if isinstance(owner, dict) and isinstance(owner.get(field), str):
            owner[field] = change(owner[field])


def names_file(value: str, base: Path) -> bool:
    """Return whether a parameter of a program is the path of a YAML file, from a directory on."""
    try:
        return value.endswith((".yaml", ".yml")) and (base / value).is_file()
    except (OSError, ValueError):
        return False
