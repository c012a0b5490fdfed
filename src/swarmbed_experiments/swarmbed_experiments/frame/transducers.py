"""Built-in transducers: carriers, distances, contacts, energy, messages, errors of pose and formation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from swarmbed_core.config import Part
from swarmbed_core.controller import TICK_RATE, NoParameters
from swarmbed_core.geometry import wrap_all
from swarmbed_core.spec import NotNegative, Positive

from swarmbed_experiments.frame.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Area
    from swarmbed_core.world import CarrierTruth

    from swarmbed_experiments.frame import Look, Setting

FLOOR = 0.002
"""Maximum height in metres at which a carrier's feet count as standing on the floor."""
PARTS = 10
"""Number of parts of a convoy whose mean errors a summary lists, front to back."""
LISTED = 100
"""Maximum number of robots whose distances a summary lists one by one."""


def retrieved(carriers: CarrierTruth, drop: Area | None) -> NDArray[np.bool_]:
    """Return which carriers stand on the floor with their centre in the drop zone."""
    if drop is None:
        return np.zeros(len(carriers.names), dtype=np.bool_)
    (left, right), (bottom, top) = drop.along_x, drop.along_y
    x, y = carriers.poses[:, 0], carriers.poses[:, 1]
    inside = (left < x) & (x < right) & (bottom < y) & (y < top)
    stands: NDArray[np.bool_] = inside & (carriers.carried_by < 0) & (carriers.lifts < FLOOR)
    return stands


def turns(angles: FloatArray) -> FloatArray:
    """Return the absolute values of angles, wrapped to the range 0 to pi."""
    apart: FloatArray = np.abs(wrap_all(angles))
    return apart


class Carriers:
    """Counts carriers that are retrieved and lifted; events for the timeline.

    Columns:
        carriers_retrieved: carriers that stand on the floor with their centre in the drop zone.
        carriers_carried: carriers that a robot has lifted.

    Metrics:
        carriers_retrieved: the same at the end of the run.
        carriers: number of carriers.
        lifts: how often a carrier was lifted.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Store the drop zone and the names."""
        zones = setting.scene.zones
        self._drop = None if zones is None else zones.drop
        self._setting = setting
        count = len(setting.scene.carriers)
        self._roster = Roster(placement.name for placement in setting.scene.robots)
        self._there = np.zeros(count, dtype=np.bool_)
        self._by = np.full(count, -1, dtype=np.int64)
        self._lifts = 0

    def tick(self, look: Look) -> None:
        """Detect carriers that were lifted, lowered or retrieved."""
        carriers, roster = look.carriers, self._roster
        roster.look(look.names)
        there = retrieved(carriers, self._drop)
        carried_by = roster.columns(carriers.carried_by)
        changed = carried_by != self._by
        if changed.any() or (there != self._there).any():
            for i in np.flatnonzero(changed | (there & ~self._there)).tolist():
                by, name = int(carried_by[i]), carriers.names[i]
                if changed[i] and by >= 0:
                    self._lifts += 1
                    self._setting.tell(look.time, "lifted", roster.names[by], f"lifts {name}")
                elif changed[i]:
                    self._setting.tell(look.time, "lowered", roster.names[self._by[i]], f"lowers {name}")
                if there[i] and not self._there[i]:
                    self._setting.tell(look.time, "retrieved", name, f"{name} is in the drop zone")
            self._by = carried_by.copy()
        self._there = there

    def row(self) -> Mapping[str, float]:
        """Return the numbers of retrieved and carried carriers."""
        return {
            "carriers_retrieved": int(self._there.sum()),
            "carriers_carried": int((self._by >= 0).sum()),
        }

    def metrics(self) -> Mapping[str, Any]:
        """Return the number retrieved at the end, the total, and the number of lifts."""
        return {
            "carriers_retrieved": int(self._there.sum()),
            "carriers": len(self._there),
            "lifts": self._lifts,
        }


class Travel:
    """Measures the distances that robots cover.

    Columns:
        distance_per_robot: [m] mean distance covered so far.

    Metrics:
        distance_per_robot: [m] mean distance covered in the run.
        max_speed: [m/s] highest speed of any robot.
        distances: [m] distance of each robot, by name; only with at most 100 robots.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Store the initial positions."""
        self._roster = Roster(placement.name for placement in setting.scene.robots)
        self._last = np.array([placement.pose[:2] for placement in setting.scene.robots])
        self._way = np.zeros(len(self._roster))
        self._fastest = 0.0
        self._gaps = False

    def tick(self, look: Look) -> None:
        """Add the distances covered since the previous tick."""
        xy, roster = look.robots[:, :2], self._roster
        if roster.look(look.names):
            self._way, self._last = roster.widened(self._way), roster.widened(self._last, math.nan)
            self._gaps = True
        self._gaps = self._gaps or not isinstance(roster.here, slice)
        if not self._gaps:
            self._way += np.hypot(xy[:, 0] - self._last[:, 0], xy[:, 1] - self._last[:, 1])
            self._last = xy.copy()
        else:
            # A robot that was away begins where it is now.
            last = self._last[roster.here]
            self._way[roster.here] += np.nan_to_num(np.hypot(xy[:, 0] - last[:, 0], xy[:, 1] - last[:, 1]))
            self._last = np.full_like(self._last, math.nan)
            self._last[roster.here] = xy
        if len(look.robots):
            fastest = np.hypot(look.robots[:, 3], look.robots[:, 4]).max()
            self._fastest = max(self._fastest, float(fastest))

    def row(self) -> Mapping[str, float]:
        """Return the mean distance so far."""
        return {"distance_per_robot": float(self._way.mean())}

    def metrics(self) -> Mapping[str, Any]:
        """Return mean distance, highest speed and, with at most LISTED robots, each robot's distance."""
        metrics: dict[str, Any] = {"distance_per_robot": float(self._way.mean()), "max_speed": self._fastest}
        if len(self._roster) <= LISTED:
            metrics["distances"] = dict(zip(self._roster.names, self._way.tolist(), strict=True))
        return metrics


class Contacts:
    """Counts contacts by kind, with the speed of approach.

    Columns:
        collisions: contacts between robots so far.
        contacts_with_carriers: contacts of robots with carriers so far.
        contacts_with_walls: contacts with walls and obstacles so far.

    Metrics:
        collisions: contacts between robots.
        contacts_with_carriers: contacts of robots with carriers.
        contacts_with_walls: contacts with walls and obstacles.
        max_approach_speed: [m/s] fastest approach of two robots that touched.
        max_contact_speed: [m/s] fastest approach of anything that touched.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Store the names of robots and carriers."""
        self._setting = setting
        self._robots: AbstractSet[str] = frozenset()
        self._seen: Sequence[str] = ()
        self._carriers = frozenset(placement.name for placement in setting.scene.carriers)
        self._counts = {"collisions": 0, "contacts_with_carriers": 0, "contacts_with_walls": 0}
        self._fastest = {"max_approach_speed": 0.0, "max_contact_speed": 0.0}

    def tick(self, look: Look) -> None:
        """Count the contacts that began since the previous tick."""
        if look.names is not self._seen:
            # A robot that has left may have touched something before.
            self._robots, self._seen = self._robots | set(look.names), look.names
        for contact in look.contacts:
            pair = {contact.one, contact.other}
            self._fastest["max_contact_speed"] = max(self._fastest["max_contact_speed"], contact.speed)
            if pair <= self._robots:
                self._counts["collisions"] += 1
                self._fastest["max_approach_speed"] = max(self._fastest["max_approach_speed"], contact.speed)
                text = f"touches {contact.other} at {contact.speed:.2f} m/s"
                self._setting.tell(contact.time, "contact", contact.one, text)
            elif pair & self._carriers:
                self._counts["contacts_with_carriers"] += 1
            else:
                self._counts["contacts_with_walls"] += 1

    def row(self) -> Mapping[str, float]:
        """Return the counts so far."""
        return dict(self._counts)

    def metrics(self) -> Mapping[str, Any]:
        """Return the counts, and the fastest approaches."""
        return {**self._counts, **self._fastest}


class Energy:
    """Measures the energy drawn from the batteries.

    Columns:
        energy_wh: [Wh] energy drawn by all robots together so far.

    Metrics:
        energy_wh: [Wh] energy drawn by all robots together.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Store the world, which adds up the energy."""
        self._setting = setting

    def tick(self, look: Look) -> None:
        """Do nothing: the world adds up the energy."""

    def row(self) -> Mapping[str, float]:
        """Return the energy drawn by all robots so far."""
        setting = self._setting
        return {"energy_wh": float(np.sum(setting.world.energy_wh())) + setting.spent_wh}

    def metrics(self) -> Mapping[str, Any]:
        """Return the energy drawn by all robots."""
        return self.row()


class Messages:
    """Counts messages over radios that carry payloads.

    Columns:
        messages: packets with a payload sent so far.
        messages_heard: receptions of such packets so far; one packet may have several receivers.
        messages_lost: receptions that failed within reach of the sender so far.

    Metrics:
        messages: packets with a payload sent.
        messages_heard: receptions of such packets.
        messages_lost: receptions that failed within reach of the sender.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Store the world, which counts the messages."""
        self._world = setting.world

    def tick(self, look: Look) -> None:
        """Do nothing: the world counts the messages."""

    def row(self) -> Mapping[str, float]:
        """Return the counts so far. A message can have several receptions."""
        counts = self._world.messages()
        return {
            "messages": counts.get("sent", 0),
            "messages_heard": counts.get("heard", 0),
            "messages_lost": counts.get("lost", 0),
        }

    def metrics(self) -> Mapping[str, Any]:
        """Return the counts."""
        return self.row()


class Localisation:
    """Measures the position errors of localised robots against the truth.

    Columns:
        localisation_error: [m] largest error of a position now; NaN while no robot is localised.

    Metrics:
        localisation_error_mean: [m] mean error of the run; null if no robot was ever localised.
        localisation_error_max: [m] largest error of the run; null likewise.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Store the robots."""
        self._robots = setting.robots
        self._now = math.nan
        self._sum = 0.0
        self._samples = 0
        self._worst = math.nan

    def tick(self, look: Look) -> None:
        """Compare the estimates with the true positions."""
        errors = [
            math.hypot(*(robot.onboard.filter.pose[:2] - truth[:2]))
            for robot, truth in zip(self._robots, look.robots, strict=False)
            if robot.onboard.filter.localised
        ]
        self._now = max(errors, default=math.nan)
        if errors:
            self._sum += sum(errors)
            self._samples += len(errors)
            self._worst = float(np.fmax(self._now, self._worst))

    def row(self) -> Mapping[str, float]:
        """Return the current largest error."""
        return {"localisation_error": self._now}

    def metrics(self) -> Mapping[str, Any]:
        """Return mean and largest error of the run in metres, NaN if no robot was ever localised."""
        mean = self._sum / self._samples if self._samples else math.nan
        return {"localisation_error_mean": mean, "localisation_error_max": self._worst}


class Formation:
    """Measures how well robots that carry something together keep their formation.

    The reference is the robots' poses in the first carrier's frame, at the first tick at which all carriers
    are carried. The error is the largest distance of a robot from its reference place.

    Columns:
        formation_error: [m] largest error of a place now; NaN while not all carriers are carried.

    Metrics:
        formation_error_max: [m] largest error of the run; null if all were never carried at once.
        formation_turn_max: [rad] largest error of a robot's yaw; null likewise.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Start without a reference, which is taken when all carriers are carried."""
        self._places: FloatArray | None = None
        self._bearers: list[str] = []
        self._now = math.nan
        self._worst = math.nan
        self._turned = 0.0

    def tick(self, look: Look) -> None:
        """Compare the formation with its reference."""
        carriers = look.carriers
        self._now = math.nan
        if not len(carriers.names) or (carriers.carried_by < 0).any():
            return
        if self._places is None:
            self._bearers = [look.names[row] for row in carriers.carried_by]
        elif not set(self._bearers) <= set(look.names):
            return
        robots = look.robots[[look.names.index(name) for name in self._bearers]]
        if self._places is None:
            self._places = _seen_from(carriers.poses[0], robots)
            self._worst = 0.0
        off = _seen_from(carriers.poses[0], robots) - self._places
        self._now = float(np.hypot(off[:, 0], off[:, 1]).max())
        self._worst = max(self._worst, self._now)
        self._turned = max(self._turned, float(turns(off[:, 2]).max()))

    def row(self) -> Mapping[str, float]:
        """Return the current error, NaN while not all carriers are carried."""
        return {"formation_error": self._now}

    def metrics(self) -> Mapping[str, Any]:
        """Return the largest errors in metres and radians, NaN if all were never carried at once."""
        known = self._places is not None
        return {
            "formation_error_max": self._worst,
            "formation_turn_max": self._turned if known else math.nan,
        }


class ConvoyParameters(Part):
    """Parameters of `Convoy`.

    Attributes:
        distance: desired metres between the centres of successive robots: D of formulas (5) and (6).
        settling: seconds at the start that the mean excludes.
        period: seconds between two samples of the error in the summary.
    """

    distance: Positive = 0.4
    settling: NotNegative = 60.0
    period: Positive = 5.0


class Convoy:
    """Measures the coherence of a convoy with the study's formulas (4) to (7), and the leader's speed.

    Each robot's place is D behind its predecessor, along the predecessor's heading. As in formula (7), the
    errors of the followers are summed and divided by the number of all robots.

    Columns:
        convoy_error: [m] mean error of the robots' places now.
        convoy_way: [m] distance that the leader has covered so far.

    Metrics:
        convoy_error: [m] mean error after `settling`; null if the run ended before.
        convoy_error_worst: [m] largest error of a robot after `settling`.
        convoy_speed: [m/s] mean speed of the leader.
        convoy_errors: [m] the mean error, a sample every `period` seconds.
        convoy_error_along: [m] mean errors in ten parts of the line, front to back; of ten robots or more.
    """

    Parameters: ClassVar[type[Part]] = ConvoyParameters

    def __init__(self, parameters: ConvoyParameters, setting: Setting) -> None:
        """Store the leader's initial position."""
        self._parameters = parameters
        self._start = np.array(setting.scene.robots[0].pose[:2])
        self._last = self._start
        self._way = 0.0
        self._time = 0.0
        self._errors: list[float] = []
        self._samples: list[float] = []
        self._roster = Roster(placement.name for placement in setting.scene.robots)
        self._sum = np.zeros(len(self._roster))
        self._worst = 0.0

    def tick(self, look: Look) -> None:
        """Measure the current errors."""
        self._time = look.time
        roster = self._roster
        if roster.look(look.names):
            self._sum = roster.widened(self._sum)
        here = look.robots[0, :2].copy()
        self._way += math.dist(here, self._last)
        self._last = here
        off = off_places(look.robots, self._parameters.distance)
        self._errors.append(float(off.sum()) / len(off))
        if len(self._samples) * self._parameters.period <= look.time + 1e-9:
            self._samples.append(self._errors[-1])
        if look.time > self._parameters.settling:
            self._sum += roster.spread(off, 0.0)
            self._worst = max(self._worst, float(off.max()))

    def row(self) -> Mapping[str, float]:
        """Return the current mean error, and the leader's distance so far."""
        return {"convoy_error": self._errors[-1] if self._errors else math.nan, "convoy_way": self._way}

    def metrics(self) -> Mapping[str, Any]:
        """Return the errors after `settling`, the leader's speed, and the samples of the error."""
        settled = self._errors[round(self._parameters.settling * TICK_RATE) :]
        count = max(len(settled), 1)
        parts = np.array_split(self._sum / count, PARTS) if len(self._sum) >= PARTS else []
        return {
            "convoy_error": math.fsum(settled) / count if settled else math.nan,
            "convoy_error_worst": self._worst,
            "convoy_speed": self._way / self._time if self._time > 0 else 0.0,
            "convoy_errors": self._samples,
            "convoy_error_along": [float(part.mean()) for part in parts],
        }


def off_places(robots: FloatArray, distance: float) -> FloatArray:
    """Return the distance of each robot of a line from its place behind its predecessor; 0 for the first."""
    off = np.zeros(len(robots))
    ahead = robots[:-1]
    dx = robots[1:, 0] - ahead[:, 0] + distance * np.cos(ahead[:, 2])
    dy = robots[1:, 1] - ahead[:, 1] + distance * np.sin(ahead[:, 2])
    off[1:] = np.hypot(dx, dy)
    return off


def _seen_from(frame: FloatArray, poses: FloatArray) -> FloatArray:
    """Transform poses from `map` to a frame."""
    c, s = math.cos(frame[2]), math.sin(frame[2])
    dx, dy = poses[:, 0] - frame[0], poses[:, 1] - frame[1]
    return np.stack([c * dx + s * dy, c * dy - s * dx, poses[:, 2] - frame[2]], axis=1)
