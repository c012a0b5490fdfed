"""Thousands of robots as arrays: a planar world whose robots have no devices until one is requested.

One program reads the senses of all robots at once and writes the commands of all of them. Range sensors have
the rays, the errors and the rate that the robots' file sets. Not modelled are wheels (bodies follow their
commands within the robots' limits; they slip only as `set_slip` and `set_drift` say), cameras, and radios
except for the numbers that robots exchange. Range sensors see discs, all at sensor height: robots
(rectangular ones by their collision radius) and carriers' legs, but no trays.

Tracked robots may stand beside a crowd, in the rows after it. The crowd senses them and collides with them;
its program does not drive them, and its radio does not reach them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from swarmbed_core.chance import within
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.device import Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.kernel import kernel
from swarmbed_core.plugins import CROWD_READINGS, find_plugin
from swarmbed_core.radio import BEACONS

from swarmbed_sim.echoes import echo_all_k
from swarmbed_sim.errors import SimError
from swarmbed_sim.parts import Beat
from swarmbed_sim.planar_rays import RingTable, cast_all_k, err_all_k
from swarmbed_sim.planar_world import TIMESTEP, PlanarPhysics, StaticGrid
from swarmbed_sim.post import Post
from swarmbed_sim.sensors import NO_CHANCE, Chance, Positions
from swarmbed_sim.sight import Seen
from swarmbed_sim.sim_world import SimWorld, check_drift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Area, Zones
    from swarmbed_core.readings import Readings
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import Radio, RangeRing, RobotSpec

    from swarmbed_sim.physics import BoolArray

    IntArray = NDArray[np.int64]

CELL = 1.2
"""Largest cell of the ray grid in metres; tuned from 0.5 to 3.5 at one robot per square metre."""
CHUNK = 256
"""Robots per batch of noise, so that a batch stays in the processor's cache."""
_COMPASS, _RINGS = 0, 1


@dataclass(slots=True, eq=False)
class Senses:
    """Readings of all robots; see `CrowdSenses`. The sensors of several rings are concatenated.

    Not frozen: one is created every tick, and a frozen dataclass takes three times as long to create.
    """

    time: float
    ranges: FloatArray
    angles: FloatArray
    headings: FloatArray
    positions: FloatArray
    zones: FloatArray
    twists: FloatArray
    air: Air
    readings: Readings | None = None


class CrowdReadings(Protocol):
    """The senses of a crowd in the robots' own units: a plugin of `swarmbed.crowd_readings`.

    It is created from the crowd, the scene, the names of the enabled senses, the generator of all its noise,
    and the seconds between calls of `measure`.

    Attributes:
        NAMES: of its senses, which may be those of rings.
        readings: the latest, as programs get them.
    """

    NAMES: ClassVar[tuple[str, ...]]
    readings: Readings

    def step(self, dt: float) -> None:
        """Advance what changes with each step of the world, `dt` seconds long."""
        ...

    def measure(self) -> None:
        """Update the readings of the enabled senses."""
        ...


@kernel
def obey_k(
    asked: FloatArray,
    kept: FloatArray,
    drift: FloatArray,
    alive: BoolArray,
    speed: float,
    yaw_rate: float,
    v_body: FloatArray,
) -> None:
    """Write the drives' target velocities: the commands within the robots' limits, after slip and drift."""
    for i in range(asked.shape[0]):
        vx, vy, omega = asked[i, 0], asked[i, 1], asked[i, 2]
        fine = alive[i] and math.isfinite(vx) and math.isfinite(vy) and math.isfinite(omega)
        if not fine:
            v_body[i, 0] = v_body[i, 1] = v_body[i, 2] = 0.0
            continue
        size2 = vx * vx + vy * vy
        share = kept[i]
        if size2 > speed * speed:
            share *= speed / math.sqrt(size2)
        share *= drift[i, 0]
        v_body[i, 0], v_body[i, 1] = share * vx, share * vy
        v_body[i, 2] = kept[i] * min(max(omega, -yaw_rate), yaw_rate)
        v_body[i, 2] += drift[i, 1] * math.hypot(v_body[i, 0], v_body[i, 1])


@kernel
def heard_k(
    poses: FloatArray,
    alive: BoolArray,
    of: IntArray,
    words: FloatArray,
    reach: float,
    fate: FloatArray,
    loss: float,
    out: FloatArray,
) -> int:
    """Write what each robot receives from the one other robot in `of`; return how many messages got lost.

    `out` is NaN where nothing is received. Messages out of range do not count as lost.
    """
    lost = 0
    for i in range(of.shape[0]):
        j = of[i]
        out[i] = math.nan
        if j < 0 or j == i or j >= words.shape[0] or not (alive[i] and alive[j]):
            continue
        if math.hypot(poses[j, 0] - poses[i, 0], poses[j, 1] - poses[i, 1]) > reach:
            continue
        if loss > 0.0 and fate[i] < loss:
            lost += 1
            continue
        out[i] = words[j]
    return lost


class Air:
    """Radio communication between the robots of a crowd; a `CrowdAir`."""

    def __init__(
        self, crowd: PlanarCrowd, radio: Radio | None, loss: float | None, rng: np.random.Generator
    ) -> None:
        """Set up the radios of all robots.

        Args:
            crowd: the robots.
            radio: of each robot; with None, nothing is ever received.
            loss: share of receptions that fail; overrides the radio's own.
            rng: decides which receptions fail.
        """
        self._crowd = crowd
        self._reach = -1.0 if radio is None else radio.range_max
        self.loss = 0.0 if radio is None else radio.loss if loss is None else loss
        self._rng = rng
        self._words = np.full((crowd.count, 1), math.nan)
        self._fate = np.empty(crowd.count)
        self._post: Post | None = None
        self.counts = {"sent": 0, "heard": 0, "lost": 0}

    def say(self, words: FloatArray) -> None:
        """Broadcast these numbers, a row per robot, until the next call."""
        self._words = words.copy()
        self.counts["sent"] += int(self._crowd.alive.sum())

    def heard(self, of: IntArray) -> FloatArray:
        """Return what each robot now receives from the robot in `of`; NaN rows where it receives nothing."""
        if self.loss > 0.0:
            self._rng.random(out=self._fate)
        out = np.empty((len(of), self._words.shape[1]))
        crowd = self._crowd
        lost = heard_k(crowd.poses, crowd.alive, of, self._words, self._reach, self._fate, self.loss, out)
        self.counts["lost"] += lost
        self.counts["heard"] += int(np.isfinite(out[:, 0]).sum())
        return out

    @property
    def post(self) -> Post:
        """Return the message exchange; created on first use, because delivery costs time."""
        if self._post is None:
            self._post = Post(self._crowd.count)
        return self._post

    def deliver(self) -> None:
        """Deliver the messages sent in this step."""
        if self._post is not None:
            crowd = self._crowd
            self._post.deliver(crowd.poses, crowd.alive, self._reach, self.loss, self._rng)

    def totals(self) -> dict[str, int]:
        """Return the numbers of `sent`, `heard` and `lost`, broadcasts and messages together."""
        posted = {} if self._post is None else self._post.counts
        return {name: count + posted.get(name, 0) for name, count in self.counts.items()}


class _Ring:
    """One sensor ring of the spec, on all robots."""

    def __init__(
        self,
        ring: RangeRing,
        rate: float,
        physics: PlanarPhysics,
        count: int,
        rng: np.random.Generator | None,
    ) -> None:
        self.ring = ring
        self.beat = Beat(rate)
        self._count = count
        self.ranges = np.full((count, ring.count), math.inf)
        self.dead: BoolArray | None = None
        self._table = RingTable(ring)
        self._physics = physics
        self._rng = rng
        self._reach = ring.range_max + ring.mount_radius
        self._walls: FloatArray | None = None
        self._statics = StaticGrid(physics.segments, physics.pillars, self._reach)
        chunk = min(count, CHUNK)
        self._gaussians = np.empty((chunk, ring.count))
        self._uniforms = np.empty((chunk, ring.count))
        self.fit()

    def fit(self) -> None:
        """Make room for the discs that there are now."""
        physics = self._physics
        widest = float(physics.disc_radii().max(initial=0.0))
        self._cell = min(CELL, self._reach + widest)
        self._poses = physics.poses[: self._count]
        jobs = self.ring.count * (len(physics.seen_discs()) + 1) + 2
        self._jobs = np.empty((4, jobs))
        self._job_indices = np.empty((2, jobs), dtype=np.uint32)

    def sweep(self, seen: Seen, alive: BoolArray | None) -> None:
        """Take a measurement with every sensor; robots that are not alive measure inf."""
        physics, ring = self._physics, self.ring
        if self._walls is not physics.segments:
            # A box was added or removed.
            self._walls = physics.segments
            self._statics = StaticGrid(physics.segments, physics.pillars, self._reach)
        if ring.reflection_cone is None:
            self._cast(seen)
        else:
            self._echo(seen, ring.reflection_cone)
        if self._rng is not None:
            for first in range(0, len(self.ranges), CHUNK):
                self._rng.standard_normal(out=self._gaussians)
                self._rng.random(out=self._uniforms)
                err_all_k(self.ranges, first, self._gaussians, self._uniforms, self._table.numbers)
        if self.dead is not None:
            self.ranges[self.dead] = math.inf
        if alive is not None:
            self.ranges[~alive] = math.inf

    def _echo(self, seen: Seen, cone: float) -> None:
        physics, table, ring, statics = self._physics, self._table, self.ring, self._statics
        echo_all_k(
            self._poses,
            seen.discs,
            seen.order,
            physics.segments,
            physics.pillars,
            statics.frame,
            statics.starts,
            statics.items,
            table.rays,
            table.axes,
            ring.mount_radius,
            ring.range_max,
            math.cos(cone / 2),
            self.ranges,
        )

    def _cast(self, seen: Seen) -> None:
        physics, table, ring = self._physics, self._table, self.ring
        cast_all_k(
            self._poses,
            seen.discs,
            self._cell,
            seen.frame,
            seen.cells,
            seen.starts,
            seen.order,
            seen.ordered,
            seen.scratch,
            self._jobs,
            self._job_indices,
            physics.segments,
            physics.pillars,
            self._statics.frame,
            self._statics.starts,
            self._statics.items,
            table.rays,
            table.axes,
            table.own_rays,
            table.order,
            table.first,
            table.after,
            ring.mount_radius,
            ring.field_of_view / 2 if ring.rays > 1 else 0.0,
            ring.range_max,
            self.ranges,
        )


class PlanarCrowd:
    """All robots of a planar world except for tracked ones, as arrays; a `Crowd`.

    Attributes:
        spec: shared by all robots.
        count: number of robots.
        poses: of the robots in `map`.
        twists: their velocities in their own frames.
        v_body: velocity commands: rows of vx, vy, omega.
        alive: which robots have neither died nor run out of power.
        all_alive: whether all are alive.
        seen: the discs that sensors see.
        readings: senses in the robots' own units; None if they have none.
    """

    def __init__(self, world: PlanarCrowdWorld, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Create the senses of all robots.

        Args:
            world: the world they are in.
            seeds: of the compasses, each ring, the radio and the readings, in this order.
        """
        self._world = world
        self.physics = physics = world.physics
        self.spec: RobotSpec = world.scene.robots[0].spec
        self.count = world.scene.crowd_size
        self._fit()
        self._limits = (self.spec.limits.speed, self.spec.limits.yaw_rate)
        self.v_body = np.zeros((self.count, 3))
        self.alive = np.ones(self.count, dtype=np.bool_)
        self.all_alive = True
        self.kept = np.ones(self.count)
        self.drift = np.zeros((self.count, 2))
        self.drift[:, 0] = 1.0
        noise = world.scene.scenario.noise
        on = senses_of(world.scene)
        most = world.scene.crowd_options.rate or math.inf
        self.rings = [
            _Ring(
                ring,
                min(ring.rate, most),
                physics,
                self.count,
                np.random.Generator(np.random.SFC64(seed)) if noise else None,
            )
            for ring, seed in zip(self.spec.ranges, seeds[_RINGS:-2], strict=True)
            if ring.name in on
        ]
        self._angles = np.array([angle for item in self.rings for angle in item.ring.angles])
        self.seen = self._look_out()
        self._zones = world.scene.zones
        self._nowhere = np.full(self.count, float(Zone.NEITHER))
        self._unknown = np.full(self.count, math.nan)
        self._compass = self.spec.compass
        self._sigma = self._compass.sigma if self._compass is not None and noise else 0.0
        self._key = seeds[_COMPASS].generate_state(2, np.uint64)
        radio = next((item for item in self.spec.radios if item.kind not in BEACONS), None)
        fate = np.random.Generator(np.random.SFC64(seeds[-2]))
        self.air = Air(self, radio, world.scene.scenario.radio.loss, fate)
        self.readings: CrowdReadings | None = None
        self._readings_beat = Beat(TICK_RATE)
        if self.spec.readings is not None:
            rng = np.random.Generator(np.random.SFC64(seeds[-1]))
            plugin = find_plugin(CROWD_READINGS, self.spec.readings)
            self.readings = plugin(self, world.scene, on, rng, 1.0 / TICK_RATE)
        positioning = self.spec.positioning
        self._position = None if positioning is None else Positions(positioning, noise=False)
        self._unsure = noise and positioning is not None and positioning.sigma > 0.0
        self._senses: Senses | None = None

    def refit(self) -> None:
        """Sense the tracked robots that are now beside the crowd."""
        self._fit()
        self.seen = self._look_out()
        for ring in self.rings:
            ring.fit()

    def _fit(self) -> None:
        """Take the rows of the crowd in the arrays of the physics."""
        self.poses = self.physics.poses[: self.count]
        self.twists = self.physics.twists[: self.count]

    def _look_out(self) -> Seen:
        """Return the discs that sensors see now."""
        heights = np.array([robot.spec.body.height for robot in self._world.scene.robots])
        return Seen(self.physics, heights)

    def obey(self, v_body: FloatArray) -> None:
        """Write the drives' target velocities for the next step."""
        obey_k(self.v_body, self.kept, self.drift, self.alive, *self._limits, v_body)

    def sweep(self, now: float) -> None:
        """Take the measurements that are due."""
        alive = None
        looked = False
        for ring in self.rings:
            if ring.beat.due(now):
                if not looked:
                    self.seen.look()
                    looked = True
                    alive = None if self.all_alive else self.alive
                ring.sweep(self.seen, alive)
        if self.readings is not None:
            if now > 0.0:
                self.readings.step(self._world.timestep)
            if self._readings_beat.due(now):
                self.readings.measure()

    def senses(self) -> Senses:
        """Return the current readings of all robots; the ranges are those of the last sweep."""
        now = self._world.time
        if self._senses is None or self._senses.time != now:
            rings = [ring.ranges for ring in self.rings]
            if len(rings) == 1:
                ranges = rings[0]
            else:
                ranges = np.concatenate(rings, axis=1) if rings else np.empty((self.count, 0))
            zones = self._nowhere if self._zones is None else zones_of(self.poses, self._zones)
            own = None if self.readings is None else self.readings.readings
            self._senses = Senses(
                now,
                ranges,
                self._angles,
                self._headings(),
                self._positions(),
                zones,
                self.twists,
                self.air,
                own,
            )
        return self._senses

    def _headings(self) -> FloatArray:
        """Return the compass headings; NaN without a compass."""
        if self._compass is None:
            return self._unknown
        headings = self.poses[:, 2].copy()
        if self._sigma > 0.0:
            # Keyed by the step, so that the noise does not depend on when it is read.
            headings += self._sigma * self._noise_of_now(0).standard_normal(self.count)
            headings -= 2 * math.pi * np.floor(headings / (2 * math.pi) + 0.5)
        return headings

    def _positions(self) -> FloatArray:
        """Return the positions that the robots' positioning reports; NaN without positioning."""
        if self._position is None:
            return np.full((self.count, 2), math.nan)
        chance = Chance.common(self._noise_of_now(1)) if self._unsure else NO_CHANCE
        return self._position.sense(self.poses, chance)

    def _noise_of_now(self, sense: int) -> np.random.Generator:
        bits = np.random.Philox(key=self._key, counter=[0, self._world.steps, sense, 0])
        return np.random.Generator(bits)


def senses_of(scene: Scene) -> frozenset[str]:
    """Return the names of the enabled senses.

    Raises:
        ConfigError: a sense is unknown.
    """
    spec, options = scene.robots[0].spec, scene.crowd_options
    known = [ring.name for ring in spec.ranges]
    if spec.readings is not None:
        plugin: type[CrowdReadings] = find_plugin(CROWD_READINGS, spec.readings)
        known += [name for name in plugin.NAMES if name not in known]
    if options.senses is None:
        return frozenset(known)
    for name in options.senses:
        if name not in known:
            message = f"robots: crowd: senses: no sense '{name}'; available: {', '.join(known) or 'none'}"
            raise ConfigError(message)
    return frozenset(options.senses)


def zones_of(poses: FloatArray, zones: Zones | None) -> FloatArray:
    """Return each robot's `Zone` as a float; `NEITHER` without zones."""
    out = np.full(len(poses), float(Zone.NEITHER))
    if zones is not None:
        out[_within(poses, zones.drop)] = Zone.DROP
        out[_within(poses, zones.search)] = Zone.SEARCH
    return out


def _within(poses: FloatArray, area: Area) -> BoolArray:
    (left, right), (bottom, top) = area.along_x, area.along_y
    inside: BoolArray = (poses[:, 0] > left) & (poses[:, 0] < right)
    return inside & (poses[:, 1] > bottom) & (poses[:, 1] < top)


class PlanarCrowdWorld(SimWorld):
    """A planar world that drives its robots as a crowd, beside tracked ones; a `CrowdWorld`."""

    physics: PlanarPhysics

    def __init__(self, scene: Scene, seed: np.random.SeedSequence) -> None:
        """Create the world; all robots of the scene but tracked ones must be of one kind, and come first."""
        step = scene.crowd_options.step or TIMESTEP
        super().__init__(scene, PlanarPhysics(scene, step, acceleration="limited"), seed)
        # Seeds after those of the robots and the radios, which no other part uses.
        row = len(scene.robots) + 1
        rings = len(scene.robots[0].spec.ranges)
        self.steps = 0
        self._crowd = PlanarCrowd(
            self,
            [within(seed, row, part) for part in range(_RINGS + rings + 2)],
        )
        self._crowd.sweep(0.0)

    def crowd(self) -> PlanarCrowd:
        """Return all robots as one crowd."""
        return self._crowd

    def step(self) -> None:
        """Advance by one time step."""
        self._crowd.obey(self.v_body)
        super().step()
        self.steps += 1
        self._crowd.sweep(self.time)
        self._crowd.air.deliver()

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a tracked robot in a free place; see `SimWorld.add_robot`."""
        super().add_robot(placement)
        self._crowd.refit()

    def remove_robot(self, name: str) -> None:
        """Remove a tracked robot; see `SimWorld.remove_robot`."""
        super().remove_robot(name)
        self._crowd.refit()

    def _in_crowd(self, name: str) -> bool:
        return self._row(name) < self._crowd.count

    def kill(self, name: str) -> None:
        """Disable a robot's drives and sensors for good; its body stays."""
        super().kill(name)
        if not self._in_crowd(name):
            return
        row = self._row(name)
        self._crowd.alive[row] = self._crowd.all_alive = False
        for ring in self._crowd.rings:
            ring.ranges[row] = math.inf

    def kill_sensor(self, name: str, ring: str, sensor: int) -> None:
        """Disable one distance sensor for good: it measures inf.

        Raises:
            SimError: unknown robot, ring or sensor.
        """
        if not self._in_crowd(name):
            super().kill_sensor(name, ring, sensor)
            return
        row = self._row(name)
        found = next((item for item in self._crowd.rings if item.ring.name == ring), None)
        if found is None:
            known = ", ".join(item.ring.name for item in self._crowd.rings) or "none"
            message = f"{name} has no ring '{ring}'; available: {known}"
            raise SimError(message)
        if not 0 <= sensor < found.ring.count:
            message = f"{name}: ring '{ring}' has no sensor {sensor}; valid: 0 to {found.ring.count - 1}"
            raise SimError(message)
        if found.dead is None:
            found.dead = np.zeros(found.ranges.shape, dtype=np.bool_)
        found.dead[row, sensor] = True
        found.ranges[row, sensor] = math.inf

    def set_slip(self, name: str, share: float) -> None:
        """Set the share of a robot's commanded motion that is lost to slip, from 0 to below 1.

        Raises:
            SimError: unknown robot, or a share out of range.
        """
        if not self._in_crowd(name):
            super().set_slip(name, share)
            return
        row = self._row(name)
        if not 0 <= share < 1:
            message = f"{name}: slip {share} is out of range; valid: 0 (none) to below 1"
            raise SimError(message)
        self._crowd.kept[row] = 1.0 - share

    def set_drift(self, name: str, stretch: float, veer: float) -> None:
        """Make a robot drive `stretch` times the commanded distance and turn `veer` rad per metre.

        Raises:
            SimError: unknown robot, or values out of range.
        """
        if not self._in_crowd(name):
            super().set_drift(name, stretch, veer)
            return
        row = self._row(name)
        check_drift(name, stretch, veer)
        self._crowd.drift[row] = stretch, veer

    def set_radio_loss(self, share: float) -> None:
        """Set the share of receptions that are lost, from 0 to 1.

        Raises:
            SimError: a share out of range.
        """
        super().set_radio_loss(share)
        self._crowd.air.loss = share

    def messages(self) -> Mapping[str, int]:
        """Return the numbers of messages `sent`, `heard` and `lost`."""
        totals = self._crowd.air.totals()
        if len(self.names) > self._crowd.count:
            for name, count in super().messages().items():
                totals[name] += count
        return totals
