"""Where the robot is in `map`: an extended Kalman filter over pose, twist and the gyro's bias.

DOTS paper, section III-A4c and Figure 5: poses from markers, the IMU and the wheels go into one EKF, whose
output is the robot's pose at the 100 Hz of motion control (III-A5). Table II says how late the cameras are:
50 to 80 ms.

The state is (x, y, yaw) in `map`, (vx, vy, omega) of the body, and the gyro's bias. The twist is the mean
over the newest cycle: the wheels measure exactly that, and the pose moves along exactly that arc, so that
acceleration makes no lag. From cycle to cycle, white-noise acceleration changes it. Each cycle:

1. the twist and the bias get their process noise;
2. the wheels' twist and the gyro's rate correct the state;
3. the pose moves along the arc of the corrected twist.

Measurements of the pose (markers) and of the yaw (compass) come late and in any order. They are put in at
their own time: the filter keeps half a second of cycles, each with its inputs and the state before any
such measurement. One with stamp t goes to the cycle that holds t, where it is compared with the pose moved
back along the arc to t; the cycles since then are run again, with every other measurement in the order of the
stamps. So the estimate does not depend on when or in which order they came.

What a camera's lens errs by is the same in every image, so that it does not average out: a pose comes with
how much of each lens error is in it, beside its noise. The errors are not estimated, but their covariance
with the state is kept (a Schmidt-Kalman filter): a robot that has looked at the same markers a thousand
times knows its place no better than its lenses allow, and one that moves on learns as much as the markers'
new places in the image tell.

A pose that the estimate calls too unlikely is gated. If the gated ones agree with each other, as seen
through odometry, for long enough, they are right and the estimate is wrong: the robot was carried away, and
the filter starts anew from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from swarmbed_core import ekf_kernel as ek
from swarmbed_core import odometry as od
from swarmbed_core.ekf_kernel import Outcome
from swarmbed_core.geometry import between, compose, wrap
from swarmbed_core.health import Health
from swarmbed_core.odometry import Odometry, OdometryParams

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec


@dataclass(frozen=True, slots=True)
class EkfParams:
    """What the filter believes about a robot. Every sigma is one standard deviation.

    Attributes:
        odometry: what odometry has to know.
        acceleration_sigma: m/s2 along each axis, the white-noise acceleration from cycle to cycle.
        yaw_acceleration_sigma: rad/s2, the same of the rate of turn.
        speed_max: m/s, the robot's fastest.
        yaw_rate_max: rad/s, the robot's fastest turn.
        wheel_sigma: m/s, of one wheel's mean speed over a cycle, whatever it is.
        slip_fraction: of a wheel's speed, sigma of what slips away or in during a cycle.
        slip_time: s over which slip stays alike; 0 is slip that is new in every cycle.
        holonomic: whether the wheels measure sideways motion; else it is 0, but for slip.
        gyro_sigma: rad/s, of one reading.
        gyro_bias_sigma: rad/s, of the bias at power-up.
        gyro_bias_walk: rad/s per square root of a second, how the bias wanders.
        gate_probability: share of right measurements that pass the gate.
        recover_after: gated poses that agree with each other that make the filter start anew.
        recover_time: s that they must span at least.
        recover_within: s, the longest time between two of them.
        history_time: s, the latest that a measurement may come.
    """

    odometry: OdometryParams
    acceleration_sigma: float
    yaw_acceleration_sigma: float
    speed_max: float
    yaw_rate_max: float
    wheel_sigma: float
    slip_fraction: float
    slip_time: float
    holonomic: bool
    gyro_sigma: float
    gyro_bias_sigma: float
    gyro_bias_walk: float
    gate_probability: float = 0.999
    recover_after: int = 15
    recover_time: float = 0.4
    recover_within: float = 1.0
    history_time: float = 0.5

    @classmethod
    def from_spec(cls, spec: RobotSpec, slip_time: float | None = None) -> EkfParams:
        """Return the parameters of this kind of robot.

        Args:
            spec: the kind of robot.
            slip_time: s over which slip stays alike, if not the spec's; see the class.
        """
        wheels, imu, limits = spec.drive.wheels, spec.imu, spec.limits
        return cls(
            odometry=OdometryParams.from_spec(spec),
            # Real acceleration lasts many cycles and white noise does not: with less than three times the
            # limit, the twist would lag visibly behind the wheels.
            acceleration_sigma=3.0 * limits.acceleration,
            yaw_acceleration_sigma=3.0 * limits.yaw_acceleration,
            speed_max=limits.speed,
            yaw_rate_max=limits.yaw_rate,
            wheel_sigma=max(wheels.speed_sigma, ek.FLOOR),
            slip_fraction=wheels.slip_sigma,
            slip_time=wheels.slip_time if slip_time is None else slip_time,
            holonomic=spec.holonomic,
            gyro_sigma=ek.FLOOR if imu is None else max(imu.gyro_sigma, ek.FLOOR),
            gyro_bias_sigma=ek.FLOOR if imu is None else max(imu.gyro_bias_sigma, ek.FLOOR),
            gyro_bias_walk=0.0 if imu is None else imu.gyro_bias_walk,
        )

    def array(self) -> FloatArray:
        """Return the parameters in the order in which the kernels take them."""
        cycle = self.odometry.cycle
        alike = math.exp(-cycle / self.slip_time) if self.slip_time > 0.0 else 0.0
        numbers = np.empty(ek.PARAMS_SIZE)
        numbers[: od.ODOMETRY_PARAMS] = self.odometry.array()
        numbers[ek.P_CYCLE] = cycle
        numbers[ek.P_ACCEL] = self.acceleration_sigma
        numbers[ek.P_YAW_ACCEL] = self.yaw_acceleration_sigma
        numbers[ek.P_WHEEL_VAR] = self.wheel_sigma**2
        numbers[ek.P_SLIP2] = self.slip_fraction**2
        # Sums of noise that stays alike grow by (1 + r)/(1 - r) faster than sums of white noise.
        numbers[ek.P_SLIP_EXCESS] = (1.0 + alike) / (1.0 - alike) - 1.0
        numbers[ek.P_LATERAL] = not self.holonomic
        numbers[ek.P_GYRO_VAR] = self.gyro_sigma**2
        numbers[ek.P_WALK2] = self.gyro_bias_walk**2
        numbers[ek.P_GATE1] = chdtri(1, 1.0 - self.gate_probability)
        numbers[ek.P_GATE3] = chdtri(3, 1.0 - self.gate_probability)
        numbers[ek.P_HISTORY] = self.history_time
        numbers[ek.P_YAW_RATE_MAX] = self.yaw_rate_max
        numbers[ek.P_SPEED2] = self.speed_max**2
        return numbers


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Gated poses, or headings, that agree: the newest, where odometry was then, since when, how many."""

    stamp: float
    pose: FloatArray
    covariance: FloatArray
    odom: FloatArray
    since: float
    count: int


class PoseFilter:
    """One robot's odometry and EKF: `step` once a cycle, `add_pose` and `add_heading` whenever one comes."""

    __slots__ = (
        "_candidate",
        "_candidate_heading",
        "_core",
        "_cov",
        "_health",
        "_history",
        "_inverse",
        "_lenses",
        "_measures",
        "_numbers",
        "_odometry",
        "_params",
        "_state",
        "_wheels",
    )

    def __init__(
        self,
        params: EkfParams,
        wheel_inverse: ArrayLike,
        health: Health | None = None,
        lens_errors: int = 0,
    ) -> None:
        """Start at the origin, not localised.

        Args:
            params: of the kind of robot.
            wheel_inverse: 3 x n, from wheel speeds to the body's twist.
            health: where refused inputs are counted; by default its own.
            lens_errors: how many errors of lenses poses from markers tell of.

        Raises:
            ValueError: `wheel_inverse` is not 3 x n, or not finite.
        """
        self._params = params
        self._numbers = params.array()
        self._health = Health() if health is None else health
        self._odometry = Odometry(params.odometry, wheel_inverse, self._health)
        self._state, self._wheels, self._inverse = self._odometry.arrays
        cycles = math.ceil(1.25 * params.history_time / params.odometry.cycle) + 1
        self._core = np.zeros(ek.CORE_SIZE)
        self._core[ek.NEWEST] = -1.0
        self._core[ek.MARKED] = -math.inf
        self._cov = np.zeros((14, 7 + lens_errors))
        unknown = (ek.POSITION_VAR_MAX, ek.POSITION_VAR_MAX, ek.YAW_VAR_MAX)
        # A robot that is switched on stands still.
        self._cov[range(7), range(7)] = (
            *unknown,
            ek.FLOOR**2,
            ek.FLOOR**2,
            ek.FLOOR**2,
            params.gyro_bias_sigma**2,
        )
        self._history = np.zeros((cycles, ek.ROW_SIZE + 7 * lens_errors))
        self._measures = np.zeros((ek.MEASURES, ek.MEASURE_SIZE + 3 * lens_errors))
        self._lenses = np.zeros((3, lens_errors))
        self._candidate: _Candidate | None = None
        self._candidate_heading: _Candidate | None = None

    @classmethod
    def for_robot(
        cls,
        spec: RobotSpec,
        wheel_inverse: ArrayLike,
        health: Health | None = None,
        lens_errors: int = 0,
    ) -> PoseFilter:
        """Return a filter for this kind of robot."""
        return cls(EkfParams.from_spec(spec), wheel_inverse, health, lens_errors)

    def step(self, stamp: float, travel: FloatArray, gyro_z: float | None) -> bool:
        """Take one cycle's readings.

        Args:
            stamp: of the readings, in seconds.
            travel: metres that each wheel rolled since power-up.
            gyro_z: rate of turn in rad/s, or None if there is no new one.

        Returns:
            Whether everything was used; what was not is counted in `health`.
        """
        travel = np.ascontiguousarray(travel, dtype=np.float64)
        if travel.shape != (self._wheels.shape[1],):
            od.refuse_shape(self._health, travel, self._wheels.shape[1])
            return False
        flags = ek.estimate_step(
            self._state,
            self._wheels,
            self._core,
            self._cov,
            self._history,
            self._numbers,
            self._inverse,
            float(stamp),
            travel,
            math.nan if gyro_z is None else float(gyro_z),
        )
        if flags == 0:
            return True
        if flags & od.CLOCK_BACK:
            self._candidate = self._candidate_heading = None
        return od.count_flags(self._health, flags, stamp, travel, gyro_z)

    def start(self, pose_map: ArrayLike, covariance: ArrayLike) -> Outcome:
        """Start anew from a pose that is true now.

        Args:
            pose_map: (x, y, yaw) in `map`.
            covariance: of it, 3 x 3.

        Returns:
            INITIALISED, or INVALID if it is no pose with a covariance.
        """
        checked = self._checked(pose_map, covariance)
        if checked is None:
            return Outcome.INVALID
        if self._core[ek.NEWEST] < 0.0:
            self._core[:3] = checked[0]
            self._cov[:3, :3] = checked[1]
            self._core[ek.LOCALISED] = 1.0
            return Outcome.INITIALISED
        return self._restart(float(self._state[od.STAMP]), *checked, self._lenses)

    def add_pose(
        self, stamp: float, pose_map: ArrayLike, covariance: ArrayLike, lens: FloatArray | None = None
    ) -> Outcome:
        """Put the pose that markers gave in at the time when they were seen.

        Args:
            stamp: when the light arrived, in seconds.
            pose_map: (x, y, yaw) of the robot in `map`.
            covariance: of its noise, which is new in each pose, 3 x 3, in m2, m rad and rad2.
            lens: by how much the pose is off for one standard deviation of each lens error, which stays the
                same: 3 x lens errors; without it the lenses were exact.

        Returns:
            What became of it. TOO_OLD, FUTURE and INVALID are counted in `health`, GATED too.
        """
        checked = self._checked(pose_map, covariance)
        if checked is None or not math.isfinite(stamp):
            if checked is not None:
                self._health.refuse(
                    "ekf.pose_invalid", f"marker pose with stamp {stamp}: seconds were expected"
                )
            return Outcome.INVALID
        pose, cov = checked
        if lens is None:
            lens = self._lenses
        elif lens.shape != self._lenses.shape or not np.abs(lens).sum() <= ek.POSE_MAX:
            self._health.refuse(
                "ekf.pose_invalid",
                f"marker pose with lens errors {lens.tolist()}: finite numbers,"
                f" {self._lenses.shape[0]} x {self._lenses.shape[1]}, were expected",
            )
            return Outcome.INVALID
        if self._core[ek.LOCALISED] == 0.0:
            return self._restart(float(stamp), pose, cov + lens @ lens.T, lens)
        code = ek.late_measure(
            self._core,
            self._cov,
            self._history,
            self._measures,
            self._numbers,
            ek.KIND_POSE,
            float(stamp),
            pose[0],
            pose[1],
            pose[2],
            cov[0, 0],
            cov[0, 1],
            cov[1, 1],
            cov[0, 2],
            cov[1, 2],
            cov[2, 2],
            lens,
        )
        outcome = Outcome(code)
        if outcome is Outcome.ACCEPTED:
            self._candidate = None
            return outcome
        self._count("pose", outcome, stamp, pose)
        if outcome is not Outcome.GATED:
            return outcome
        cov = cov + lens @ lens.T
        if self._lost(float(stamp), pose, cov):
            return self._restart(float(stamp), pose, cov, lens)
        return outcome

    def add_heading(self, stamp: float, heading: float, sigma: float) -> Outcome:
        """Put a compass heading in at the time when it was true.

        Args:
            stamp: in seconds.
            heading: in rad, 0 is +x of `map`.
            sigma: of it, in rad.

        Returns:
            What became of it, as for `add_pose`.
        """
        if not (math.isfinite(stamp) and abs(heading) <= ek.ANGLE_MAX and 0.0 <= sigma <= ek.ANGLE_MAX):
            explanation = (
                f"heading {heading} with sigma {sigma} and stamp {stamp}: finite numbers were expected"
            )
            self._health.refuse("ekf.heading_invalid", explanation)
            return Outcome.INVALID
        variance = max(float(sigma), ek.HEADING_FLOOR) ** 2
        code = ek.late_measure(
            self._core,
            self._cov,
            self._history,
            self._measures,
            self._numbers,
            ek.KIND_HEADING,
            float(stamp),
            0.0,
            0.0,
            float(heading),
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            variance,
            self._lenses,
        )
        outcome = Outcome(code)
        if outcome is Outcome.ACCEPTED:
            self._candidate_heading = None
            return outcome
        self._count("heading", outcome, stamp, heading)
        # Markers know better: a compass that contradicts them is disturbed.
        if outcome is Outcome.GATED and self._core[ek.MARKED] < stamp - self._params.recover_within:
            return self._recover_yaw(float(stamp), float(heading), variance)
        return outcome

    @property
    def pose(self) -> FloatArray:
        """Return (x, y, yaw) in `map`, in metres and radians; means nothing until `localised`."""
        return self._core[:3].copy()

    @property
    def twist_body(self) -> FloatArray:
        """Return (vx, vy, omega) in the body's frame, in m/s and rad/s: the mean over the newest cycle."""
        return self._core[3:6].copy()

    @property
    def gyro_bias(self) -> float:
        """Return what the gyro is believed to read too much, in rad/s."""
        return float(self._core[6])

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance of (x, y, yaw, vx, vy, omega, gyro bias): 7 x 7, SI and radians."""
        return self._cov[:7, :7].copy()

    @property
    def lens_errors(self) -> int:
        """Return how many errors of lenses are kept beside the state."""
        return self._lenses.shape[1]

    @property
    def localised(self) -> bool:
        """Return whether the pose in `map` was ever known."""
        return bool(self._core[ek.LOCALISED])

    @property
    def distance2(self) -> float:
        """Return the squared Mahalanobis distance of the newest late measurement: chi-square distributed."""
        return float(self._core[ek.DISTANCE2])

    @property
    def odometry(self) -> Odometry:
        """Return the dead reckoning below the filter: pose and twist in `odom`."""
        return self._odometry

    @property
    def health(self) -> Health:
        """Return the counters of refused inputs, odometry's among them."""
        return self._health

    def _checked(self, pose_map: ArrayLike, covariance: ArrayLike) -> tuple[FloatArray, FloatArray] | None:
        """Return a pose and its covariance as arrays, or None after counting that they are none."""
        try:
            pose = np.asarray(pose_map, dtype=np.float64)
            cov = np.asarray(covariance, dtype=np.float64)
        except (TypeError, ValueError) as error:
            self._health.refuse("ekf.pose_invalid", f"pose {pose_map!r}, covariance {covariance!r}: {error}")
            return None
        if pose.shape == (3,) and cov.shape == (3, 3):
            bounded = np.abs(pose).max() <= ek.POSE_MAX and np.abs(cov).max() <= ek.VARIANCE_MAX
            if bounded and np.abs(cov - cov.T).max() <= ek.ODDNESS * np.abs(cov).max():
                even = 0.5 * (cov + cov.T)
                even[range(3), range(3)] += ek.FLOOR**2
                if is_covariance(even):
                    return pose, even
        self._health.refuse(
            "ekf.pose_invalid",
            f"pose {pose.tolist()} with covariance {cov.tolist()}: finite (x, y, yaw) and a symmetric"
            " positive definite 3 x 3 matrix were expected",
        )
        return None

    def _restart(self, stamp: float, pose: FloatArray, covariance: FloatArray, lens: FloatArray) -> Outcome:
        """Start anew from a pose, if its stamp can be used; the covariance has the lens errors in it."""
        code = ek.set_pose(
            self._core,
            self._cov,
            self._history,
            self._measures,
            self._numbers,
            stamp,
            pose,
            covariance,
            lens,
        )
        outcome = Outcome(code)
        if outcome is Outcome.ACCEPTED:
            self._candidate = self._candidate_heading = None
            return Outcome.INITIALISED
        self._count("pose", outcome, stamp, pose)
        return outcome

    def _count(self, what: str, outcome: Outcome, stamp: float, value: object) -> None:
        """Count a measurement that was not used."""
        now = float(self._state[od.STAMP])
        self._health.refuse(
            f"ekf.{what}_{outcome.name.lower()}", f"{what} {value} with stamp {stamp} at {now}"
        )

    def _agreed(self, old: _Candidate | None, new: _Candidate, predicted_yaw_only: bool) -> _Candidate:
        """Return the candidate after one more gated measurement."""
        if old is None or abs(new.stamp - old.stamp) > self._params.recover_within:
            return new
        expected = compose(old.pose, between(old.odom, new.odom))
        error = new.pose - expected
        error[2] = wrap(error[2])
        spread = old.covariance + new.covariance
        spread[range(3), range(3)] += ek.DRIFT**2
        if predicted_yaw_only:
            agrees = error[2] ** 2 <= self._numbers[ek.P_GATE1] * spread[2, 2]
        else:
            agrees = error @ np.linalg.solve(spread, error) <= self._numbers[ek.P_GATE3]
        if agrees:
            return replace(new, since=min(old.since, new.since), count=old.count + 1)
        # One wild pose among those that agree must not undo them all.
        return replace(old, count=old.count - 1) if old.count > 1 else new

    def _convinces(self, candidate: _Candidate) -> bool:
        """Return whether enough gated measurements agree for long enough."""
        spans = candidate.stamp - candidate.since >= self._params.recover_time
        return spans and candidate.count >= self._params.recover_after

    def _lost(self, stamp: float, pose: FloatArray, covariance: FloatArray) -> bool:
        """Return whether the gated poses say that the robot is elsewhere."""
        new = _Candidate(stamp, pose, covariance, self._core[ek.ODOM : ek.ODOM + 3].copy(), stamp, 1)
        self._candidate = self._agreed(self._candidate, new, predicted_yaw_only=False)
        return self._convinces(self._candidate)

    def _recover_yaw(self, stamp: float, heading: float, variance: float) -> Outcome:
        """Take the compass's word for the yaw, once enough gated headings agree."""
        odom = self._core[ek.ODOM : ek.ODOM + 3].copy()
        pose = np.array([0.0, 0.0, heading])
        new = _Candidate(stamp, pose, np.diag((1.0, 1.0, variance)), odom, stamp, 1)
        self._candidate_heading = self._agreed(self._candidate_heading, new, predicted_yaw_only=True)
        if not self._convinces(self._candidate_heading):
            return Outcome.GATED
        localised, marked = self._core[ek.LOCALISED], self._core[ek.MARKED]
        pose = self.pose
        pose[2] = heading + wrap(self._state[od.POSE + 2] - odom[2])
        covariance = self._cov[:3, :3].copy()
        covariance[2] = covariance[:, 2] = 0.0
        covariance[2, 2] = variance
        # The place is as it was, with what lenses erred in it.
        lens = -self._cov[:3, ek.LENS :]
        lens[2] = 0.0
        outcome = self._restart(float(self._state[od.STAMP]), pose, covariance, lens)
        self._core[ek.LOCALISED], self._core[ek.MARKED] = localised, marked
        return outcome


def is_covariance(matrix: FloatArray) -> bool:
    """Return whether a symmetric 3 x 3 matrix is positive definite, by its leading minors."""
    a, b, c, d, e, f = (float(matrix[i, j]) for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)))
    minor = a * c - b * b
    return a > 0.0 and minor > 0.0 and f * minor - a * e * e + 2.0 * b * d * e - c * d * d > 0.0
