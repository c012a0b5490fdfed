"""A scenario: one YAML file that describes an experiment and how it is evaluated.

The file holds the world, the arena, robots, carriers, obstacles, the controller, the radio, the seed, the
time limit and the experimental frame. `swarmbed_core.scene` derives a pose for everything from it.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from swarmbed_core.config import ConfigFile, Part, anchored
from swarmbed_core.heading import Area
from swarmbed_core.idle import IDLE
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
    """A plugin's name, with the plugin's own parameters beside it."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    name: Annotated[str, Field(min_length=1)]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters beside the name; the named plugin validates them."""
        return dict(self.model_extra or {})


class Line(Part):
    """Objects in a line, one behind the other, all facing the same way.

    Attributes:
        start: `[x, y, yaw]` of the first one, in m and rad.
        spacing: [m] distance from one to the next.
    """

    start: Pose
    spacing: Positive

    def pose(self, k: int) -> Pose:
        """Return the pose of the object with index `k`, 0 for the first."""
        x, y, yaw = self.start
        back = k * self.spacing
        return x - back * math.cos(yaw), y - back * math.sin(yaw), yaw


class Place(Part):
    """Where objects stand: at random in a zone of the arena or an area, in a line, or at given poses.

    Attributes:
        zone: at random in a zone of the arena, or anywhere in it.
        area: at random in a rectangle: `x_min`, `x_max`, `y_min`, `y_max` in m, each optional.
        poses: `[x, y, yaw]` of each, in m and rad.
        line: one behind the other.
        yaw: yaw of objects placed at random, in rad; random too, if not given.
        gap: [m] distance that objects placed at random keep from everything else. If not given, 0.05 for
            robots and 0.35 for carriers, so that a robot fits between.
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
        """Return the pose of the object with index `k`, None if it is placed at random."""
        if self.line is not None:
            return self.line.pose(k)
        return None if self.poses is None else self.poses[k]

    @property
    def at_random(self) -> bool:
        """Return whether objects are placed at random."""
        return self.poses is None and self.line is None


class Several(Part):
    """A group of objects of one kind, and where they stand."""

    count: Count | None = None
    place: Place

    @model_validator(mode="after")
    def _count_fits(self) -> Several:
        poses = self.place.poses
        if poses is None and self.count is None:
            message = "count: missing; give the number to place"
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
    """Options for robots that are driven as a crowd.

    Attributes:
        step: time step of the world, in seconds; the world's own if not given. 0.1 s must be a whole number
            of steps.
        rate: highest rate of the distance sensors, in Hz; their own rate if not given.
        senses: senses to switch on: rings of distance sensors by name, and those that `readings` in the
            robot's file offers; all of them if not given.
    """

    step: Annotated[float, Field(ge=0.001, le=0.1)] | None = None
    rate: Annotated[float, Field(gt=0, le=1000)] | None = None
    senses: tuple[str, ...] | None = None

    @field_validator("step")
    @classmethod
    def _ticks_are_whole(cls, step: float | None) -> float | None:
        if step is not None and abs(0.1 / step - round(0.1 / step)) > 1e-9:
            message = f"step {step}: 0.1 s must be a whole number of steps, as with 0.01, 0.05 and 0.1"
            raise ValueError(message)
        return step


class TrackedBody(Part):
    """Options for bodies that are led from outside the world, by a tracker or another simulator.

    Attributes:
        patience: [s] how long a robot moves on with its told velocity when nothing new is told. Then it is
            lost: it stands until it is told again.
        top_speed: [m/s] speed from which a telling is refused as a jump; twice the kind's, if not given.
    """

    patience: Positive = 0.5
    top_speed: Positive | None = None


class Robots(Several):
    """Robots of one kind.

    Attributes:
        count: how many; the number of poses, if poses are given.
        place: where they start.
        kind: a name from config/robots, or a file.
        name: name of the robots, without the number that is appended; the kind's, if not given.
        localised: whether they find their pose in the arena by the markers on its walls, if it has any.
        crowd: whether the controller runs in its form for thousands of robots, without an Onboard each;
            `true`, or a mapping of options.
        controller: their program: `{name: ..., parameter: ...}`; the scenario's, if not given.
        driver: `program` runs the controller; `elsewhere` runs none: they are commanded from outside.
        body: `simulated`, or `tracked`: led from outside, where they are told to be. `tracked` may be a
            mapping of options: `{patience: 0.5}`.
        device: what supplies their parts instead of the world, one after the other:
            `[{name: remote, parts: [motors], ...}]`.
        battery: discharge model of the batteries, for kinds with `readings`: `simple`, `linear`, `cubic` or
            `approximated`. If not given, the load drains them; those of a crowd stay full.
    """

    kind: str = "dots"
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    localised: bool = False
    crowd: bool | CrowdOptions = False
    controller: Named | None = None
    driver: Literal["program", "elsewhere"] = "program"
    body: Literal["simulated", "tracked"] | TrackedBody = "simulated"
    device: tuple[Named, ...] = ()
    battery: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _batteries_moved(cls, given: Any) -> Any:
        crowd = given.get("crowd") if isinstance(given, dict) else None
        if isinstance(crowd, dict) and "battery" in crowd:
            message = "crowd.battery: moved; write `battery` beside `crowd`, in the group of robots"
            raise ValueError(message)
        return given

    @model_validator(mode="after")
    def _crowds_are_simulated(self) -> Robots:
        alone = {
            "driver: elsewhere": self.driver == "elsewhere",
            "body: tracked": self.body != "simulated",
            "device": bool(self.device),
            "controller": self.controller is not None,
        }
        if self.crowd and any(alone.values()):
            given = next(name for name, is_given in alone.items() if is_given)
            message = f"{given}: not for a crowd; leave out `crowd`"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _a_program_needs_a_driver(self) -> Robots:
        if self.driver == "elsewhere" and self.controller is not None:
            message = f"controller {self.controller.name}: never runs with `driver: elsewhere`; leave out one"
            raise ValueError(message)
        return self

    @property
    def tracked(self) -> TrackedBody | None:
        """Return the options of a body that is led from outside, None if it is simulated."""
        if isinstance(self.body, TrackedBody):
            return self.body
        return TrackedBody() if self.body == "tracked" else None


class Carriers(Several):
    """Carriers that robots drive under and lift.

    Every carrier has a marker id of its own.

    Attributes:
        count: how many; the number of poses, if poses are given.
        place: where they stand; with `joined`, where the centre of the joined body stands.
        payload: [kg] mass on each.
        joined: cells [column, row] of a grid. Each cell holds one carrier; the carriers stand edge to edge.
    """

    payload: NotNegative = 0.0
    joined: tuple[tuple[Cell, Cell], ...] | None = None

    @model_validator(mode="after")
    def _cells_differ(self) -> Carriers:
        if self.joined is None:
            return self
        cells = set(self.joined)
        if not cells or len(cells) != len(self.joined):
            message = "joined: cells [column, row] must be unique, and there must be at least one"
            raise ValueError(message)
        reached, edge = set(), {self.joined[0]}
        while edge:
            reached |= edge
            beside = {(c + dc, r + dr) for c, r in edge for dc, dr in ((1, 0), (-1, 0), (0, 1), (0, -1))}
            edge = (beside & cells) - reached
        if reached != cells:
            message = f"joined: {sorted(cells - reached)} share no edge with the other cells"
            raise ValueError(message)
        return self


class BoxObstacle(Part):
    """A fixed box.

    Attributes:
        shape: box.
        size: [m] length and width.
        height: [m] height.
        pose: `[x, y, yaw]` of its centre, in m and rad.
    """

    shape: Literal["box"]
    size: tuple[Positive, Positive]
    height: Positive = 0.3
    pose: Pose


class CylinderObstacle(Part):
    """A fixed cylinder.

    Attributes:
        shape: cylinder.
        radius: [m] radius.
        height: [m] height.
        pose: `[x, y, yaw]` of its centre, in m and rad.
    """

    shape: Literal["cylinder"]
    radius: Positive
    height: Positive = 0.3
    pose: Pose


Obstacle = Annotated[BoxObstacle | CylinderObstacle, Field(discriminator="shape")]


class Light(Part):
    """A lamp: light sensors and cameras detect it; it has no body.

    Attributes:
        place: x, y and height above the floor, in m.
        intensity: without a unit, as in equation (2) of the e-puck2 paper; the measured lamp is 1.
        colour: red, green and blue as seen by cameras, 0 to 255.
    """

    place: tuple[Coordinate, Coordinate, NotNegative]
    intensity: NotNegative = 1.0
    colour: tuple[Byte, Byte, Byte] = (255, 255, 255)


class RadioConditions(Part):
    """Radio conditions that override the robots' own.

    Attributes:
        loss: share of the receptions that fail; that of each robot's file, if not given.
    """

    loss: Fraction | None = None


class Frame(Part):
    """The experimental frame: disturbances, measurements, and the criteria of success.

    Attributes:
        generators: disturbances of the run, each `{name: ..., parameter: ...}`.
        transducers: measurements.
        acceptors: criteria that decide the run; a single rejection fails it.
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
        title: description in one line, shown in results and pictures.
        name: name of its runs; the file's name without .yaml, if not given.
        world: name of the world: `mujoco`, `planar`, `gazebo`, or one that a package adds.
        arena: a name from worlds, or a file.
        seed: seed of random places and of all noise.
        time_limit: [s] time of the world after which the run ends.
        noise: whether wheels slip and sensors have errors.
        open: whether robots may be added and removed over ROS while the run is judged.
        robots: groups of robots, in the order of their names.
        carriers: groups of carriers.
        carrier_markers: markers on the carriers: a name from config/markermaps, or a file.
        obstacles: boxes and cylinders.
        lights: lamps, for light sensors and for cameras that detect lights.
        controller: the program of robots whose group has none of its own: `{name: ..., parameter: ...}`; the
            first group's, if not given. It may be left out if all are driven from elsewhere.
        radio: radio conditions: `{loss: 0.1}`.
        frame: generators, transducers and acceptors.
        vision: `corners` computes the positions of the markers' corners in the cameras' images; `pixels`
            renders the images and runs the robots' detector on them, which takes a hundred times as long.
        exposure: exposure time of an image in seconds, which blurs it while the robot moves; that of
            config/imaging, if not given.
    """

    FOLDER: ClassVar[str] = "config/scenarios"

    title: str
    name: Annotated[str, Field(pattern=r"^[^/\x00]+$", max_length=200)] | None = None
    world: str = "mujoco"
    arena: str = "dots_arena"
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 1
    time_limit: Annotated[float, Field(gt=0, le=1e6)]
    noise: bool = True
    open: bool = False
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

    @model_validator(mode="before")
    @classmethod
    def _controller_of_the_first_group(cls, data: Any) -> Any:
        """Take the first group's controller for the scenario's, if that is not given."""
        groups = data.get("robots") if isinstance(data, dict) and "controller" not in data else None
        if isinstance(groups, list | tuple):
            own = [
                group.get("controller") if isinstance(group, dict) else getattr(group, "controller", None)
                for group in groups
            ]
            given = next((one for one in own if one is not None), None)
            drivers = [
                group.get("driver") if isinstance(group, dict) else getattr(group, "driver", None)
                for group in groups
            ]
            if given is None and drivers and all(driver == "elsewhere" for driver in drivers):
                given = {"name": IDLE}
            if given is not None:
                return {**data, "controller": given}
        return data

    @classmethod
    def anchor(cls, data: Any, base: Path) -> None:
        """Make the paths of arena, robots, markers and plugin parameters absolute.

        A plugin's parameter counts as a path if a YAML file exists there, and if it is named `..._file` and
        has a directory.
        """
        _change_paths(data, base, lambda path: anchored(path, base))

    @property
    def has_devices(self) -> bool:
        """Return whether parts of robots may be real."""
        return any(group.device for group in self.robots)

    def all_virtual(self) -> Scenario:
        """Return the scenario with virtual parts only, for rehearsals: they must not move a real robot."""
        if not self.has_devices:
            return self
        robots = tuple(group.model_copy(update={"device": ()}) for group in self.robots)
        return self.model_copy(update={"robots": robots})

    def seen_from(self, base: Path) -> Scenario:
        """Return the scenario with paths below a directory made relative to it."""

        def relative(path: str) -> str:
            file = Path(path)
            return str(file.relative_to(base)) if file.is_relative_to(base) else path

        data = self.model_dump(mode="json")
        _change_paths(data, base, relative)
        return type(self).model_validate(data)


def _change_paths(data: Any, base: Path, change: Callable[[str], str]) -> None:
    """Apply `change` to the file names and paths in a scenario's data, in place."""
    if not isinstance(data, dict):
        return
    places: list[tuple[Any, str]] = [(data, field) for field in ("arena", "carrier_markers")]
    robots, frame = data.get("robots"), data.get("frame")
    groups = robots if isinstance(robots, list) else []
    places += [(group, "kind") for group in groups]
    programs = [data.get("controller")]
    for group in groups:
        if isinstance(group, dict):
            made = group.get("device")
            programs += [group.get("controller"), *(made if isinstance(made, list) else ())]
    for some in frame.values() if isinstance(frame, dict) else ():
        programs += some if isinstance(some, list) else []
    for named in programs:
        for field, value in named.items() if isinstance(named, dict) else ():
            if field == "name" or not isinstance(value, str):
                continue
            # Such as a device's `key_file`, which need not exist here.
            a_file = field.endswith("_file") and os.sep in value and not value.startswith("~")
            if a_file or names_file(value, base):
                places.append((named, field))
    for owner, field in places:
        if isinstance(owner, dict) and isinstance(owner.get(field), str):
            owner[field] = change(owner[field])


def names_file(value: str, base: Path) -> bool:
    """Return whether a parameter is the path of an existing YAML file, relative to a directory."""
    try:
        return value.endswith((".yaml", ".yml")) and (base / value).is_file()
    except (OSError, ValueError):
        return False
