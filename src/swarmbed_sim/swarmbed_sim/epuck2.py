"""The senses of a crowd of e-puck2s in the robot's own units, `readings: epuck2`.

The models follow "Design and analysis of an E-Puck2 robot plug-in for ARGoS" (sections 3 and 4.1, tables 1
to 3); units and curves are in `swarmbed_core.epuck2`. Proximity and time of flight come from the crowd's
rings; ground, light and lights in view from the groups that whole robots use. Encoders count the rotation of
the motors, even while the robot is blocked. A robot with an empty battery stops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from swarmbed_core.epuck2 import (
    GRAVITY_COUNTS,
    MOST,
    STEPS,
    TURN_COUNTS,
    ground_k,
    light_k,
    proximity_k,
    register_k,
    roll_k,
    tof_k,
)
from swarmbed_core.geometry import GRAVITY
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.readings import Blobs, Readings

from swarmbed_core import discharge
from swarmbed_sim.ground import Ground
from swarmbed_sim.lamps import LightSense
from swarmbed_sim.planar_kernels import _come_k, _limit_k
from swarmbed_sim.sensors import Chance
from swarmbed_sim.solid import DRIVE_TIME
from swarmbed_sim.spots import Glow, Spots, masks_of, tint_k

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

    from swarmbed_sim.crowd import PlanarCrowd
    from swarmbed_sim.physics import BoolArray, IntArray


@kernel
def wheels_k(
    asked: FloatArray,
    alive: BoolArray,
    limits: FloatArray,
    dt: float,
    matrix: FloatArray,
    state: FloatArray,
    ways: FloatArray,
    metres: FloatArray,
) -> None:
    """Compute how far the two wheels of each robot turn in a step, in metres.

    Args:
        asked: commands, rows of vx, vy, omega.
        alive: which robots drive.
        limits: speed, yaw rate, and the accelerations of both.
        dt: duration of the step in seconds.
        matrix: from vx, vy, omega to wheel speeds.
        state: rows of vx, omega that the drives would have without contact forces; updated.
        ways: output, the signed distance of each wheel.
        metres: output, the mean of the two wheels' absolute distances.
    """
    gain = 1.0 - math.exp(-dt / DRIVE_TIME)
    for i in range(asked.shape[0]):
        ahead, turn = asked[i, 0], asked[i, 2]
        if not (alive[i] and math.isfinite(ahead) and math.isfinite(turn)):
            ahead = turn = 0.0
        ahead, turn = _limit_k(ahead, limits[0]), _limit_k(turn, limits[1])
        state[i, 0] += _limit_k(_come_k(ahead - state[i, 0], gain), limits[2] * dt)
        state[i, 1] += _limit_k(_come_k(turn - state[i, 1], gain), limits[3] * dt)
        for k in range(matrix.shape[0]):
            ways[i, k] = dt * (matrix[k, 0] * state[i, 0] + matrix[k, 2] * state[i, 1])
        metres[i] = 0.5 * (abs(ways[i, 0]) + abs(ways[i, 1]))


@kernel
def run_flat_k(charge: FloatArray, alive: BoolArray) -> bool:
    """Clear `alive` for robots with an empty battery; return whether there are any."""
    any_flat = False
    for i in range(charge.shape[0]):
        if charge[i] <= 0.0:
            alive[i] = False
            any_flat = True
    return any_flat


@kernel
def imu_k(
    twists: FloatArray,
    last: FloatArray,
    dt: float,
    errors: FloatArray,
    acceleration: IntArray,
    turning: IntArray,
) -> None:
    """Compute the inertial sensors' readings; `last` holds the previous twists and is updated.

    The acceleration is the mean since the last reading. `errors` has rows of x, y, z, yaw rate.
    """
    g_counts, turn_counts = GRAVITY_COUNTS / GRAVITY, TURN_COUNTS * 180.0 / math.pi
    for i in range(twists.shape[0]):
        vx, vy, omega = twists[i, 0], twists[i, 1], twists[i, 2]
        ax = (vx - last[i, 0]) / dt - vy * omega
        ay = (vy - last[i, 1]) / dt + vx * omega
        az = GRAVITY
        if errors.shape[0] > 0:
            ax, ay, az = ax + errors[i, 0], ay + errors[i, 1], az + errors[i, 2]
            omega += errors[i, 3]
        acceleration[i, 0] = int(np.rint(_limit_k(g_counts * ax, MOST)))
        acceleration[i, 1] = int(np.rint(_limit_k(g_counts * ay, MOST)))
        acceleration[i, 2] = int(np.rint(_limit_k(g_counts * az, MOST)))
        turning[i, 2] = int(np.rint(_limit_k(turn_counts * omega, MOST)))
        last[i, 0], last[i, 1], last[i, 2] = vx, vy, twists[i, 2]


class EPuck2Senses:
    """Senses of all robots of a crowd, in the e-puck2's units; a `CrowdReadings`.

    Attributes:
        readings: the latest readings, as programs get them.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("proximity", "light", "ground", "tof", "encoders", "camera", "imu")
    """Names of the senses; `tof` and `proximity` are also rings."""

    def __init__(
        self, crowd: PlanarCrowd, scene: Scene, on: frozenset[str], rng: np.random.Generator, period: float
    ) -> None:
        """Create the senses.

        Args:
            crowd: the robots, with their rings.
            scene: provides the lamps, the floor and the battery model.
            on: the names of the enabled senses.
            rng: of all their noise.
            period: seconds between calls of `measure`.
        """
        self._crowd = crowd
        self._rng = rng if scene.scenario.noise else None
        self._chance = Chance.common(self._rng)
        self._period = period
        spec, n = crowd.spec, crowd.count
        rings = {item.ring.name: item for item in crowd.rings}
        self._proximity, self._tof = rings.get("proximity"), rings.get("tof")
        glow = Glow([spec.leds] * n)
        self.readings = readings = Readings(glow.colours)
        self._masks = masks_of(spec.leds)
        self._rows = np.arange(n)
        self._none = np.empty((0, 0))
        if self._proximity is not None:
            readings.proximity = np.zeros((n, self._proximity.ring.count), dtype=np.int64)
        if self._tof is not None:
            readings.tof = np.zeros(n, dtype=np.int64)
        lamps = scene.scenario.lights
        self._light: LightSense | None = None
        if "light" in on and spec.light is not None:
            ring = next(ring for ring in spec.ranges if ring.name == spec.light.ring)
            self._light = LightSense(spec.light, ring, lamps, None, noise=False)
            readings.light = np.zeros((n, ring.count), dtype=np.int64)
        self._ground: Ground | None = None
        if "ground" in on and spec.ground is not None:
            self._ground = Ground(spec.ground, scene.arena.floor, noise=False)
            readings.ground = np.zeros((n, len(spec.ground.places)), dtype=np.int64)
        self._spots: Spots | None = None
        if "camera" in on and spec.cameras:
            self._spots = Spots(spec.cameras[0], lamps, glow, None, noise=False)
            none = np.zeros((0, 2)), np.zeros((0, 3), dtype=np.uint8)
            readings.camera = Blobs(np.zeros(n + 1, dtype=np.int64), *none)
        if "imu" in on:
            self._last = np.zeros((n, 3))
            readings.acceleration = np.zeros((n, 3), dtype=np.int64)
            readings.turning = np.zeros((n, 3), dtype=np.int64)
            self._bias = np.zeros(n)
            if self._rng is not None and spec.imu is not None:
                self._bias = spec.imu.gyro_bias_sigma * self._rng.standard_normal(n)
        if "encoders" in on:
            readings.encoders = np.zeros((n, 2), dtype=np.int64)
            self._parts = np.zeros((n, 2))
            self._counts = np.zeros((n, 2), dtype=np.int64)
            self._step_way = 2 * math.pi * spec.drive.wheels.radius / STEPS
        self._discharge = None
        model = scene.robots[0].battery
        if model is not None:
            self._discharge = discharge.MODELS[model]
            readings.battery = np.ones(n)
        limits = spec.limits
        self._limits = np.array((limits.speed, limits.yaw_rate, limits.acceleration, limits.yaw_acceleration))
        self._matrix = Kinematics.of(spec).matrix
        self._drives = np.zeros((n, 2))
        self._ways = np.zeros((n, 2))
        self._metres = np.zeros(n)
        self._turns = "encoders" in on or model is not None
        self._slip = spec.drive.wheels.slip_sigma

    def step(self, dt: float) -> None:
        """Advance wheels and batteries by one step of `dt` seconds."""
        if not self._turns:
            return
        crowd, readings = self._crowd, self.readings
        wheels_k(
            crowd.v_body,
            crowd.alive,
            self._limits,
            dt,
            self._matrix,
            self._drives,
            self._ways,
            self._metres,
        )
        if self._discharge is not None and readings.battery is not None:
            readings.battery = self._discharge(dt, self._metres, readings.battery)
            if run_flat_k(readings.battery, crowd.alive):
                crowd.all_alive = False
        if readings.encoders is not None:
            if self._rng is not None:
                self._ways *= 1.0 + self._slip * self._rng.standard_normal(self._ways.shape)
            roll_k(self._ways.ravel(), self._step_way, self._parts.ravel(), self._counts.ravel())

    def measure(self) -> None:
        """Update the readings of the enabled senses."""
        crowd, readings, seen = self._crowd, self.readings, self._crowd.seen
        physics, chance, rows = crowd.physics, self._chance, self._rows
        if readings.proximity is not None and self._proximity is not None:
            proximity_k(self._proximity.ranges.ravel(), readings.proximity.ravel())
        if readings.tof is not None and self._tof is not None:
            tof_k(self._tof.ranges.ravel(), readings.tof)
        if readings.encoders is not None:
            register_k(self._counts.ravel(), readings.encoders.ravel())
        if self._ground is not None and readings.ground is not None:
            ground_k(self._ground.sense(crowd.poses, chance).ravel(), readings.ground.ravel())
        if self._light is not None or self._spots is not None:
            seen.look()
        if self._light is not None and readings.light is not None:
            light_k(self._light.sense(physics, rows, seen, chance).ravel(), readings.light.ravel())
        if self._spots is not None and readings.camera is not None:
            tint_k(self._masks, readings.leds)
            self._spots.sense(physics, rows, crowd.alive, seen, chance, readings.camera)
        if readings.acceleration is not None and readings.turning is not None:
            errors = self._imu_errors()
            twists = crowd.twists
            imu_k(twists, self._last, self._period, errors, readings.acceleration, readings.turning)

    def _imu_errors(self) -> FloatArray:
        imu = self._crowd.spec.imu
        if self._rng is None or imu is None:
            return self._none
        draws = self._rng.standard_normal((self._crowd.count, 5))
        self._bias += imu.gyro_bias_walk * math.sqrt(self._period) * draws[:, 4]
        errors = imu.accel_sigma * draws[:, :4]
        errors[:, 3] = imu.gyro_sigma * draws[:, 3] + self._bias
        return errors
