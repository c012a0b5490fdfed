"""Localisation in `map`: an extended Kalman filter over pose, twist and the gyro's bias.

DOTS paper, section III-A4c and Figure 5: one EKF fuses marker poses, the IMU and the wheels, and outputs the
robot's pose at the 100 Hz of motion control (III-A5). Table II gives the cameras' latency: 50 to 80 ms.

The state is (x, y, yaw) in `map`, (vx, vy, omega) of the body, and the gyro's bias. The twist is the mean
over the newest cycle. That is what the wheels measure, and the pose moves along its arc, so acceleration
causes no lag. White-noise acceleration changes the twist from cycle to cycle. Each cycle:

1. the twist and the bias get their process noise;
2. the wheels' twist and the gyro's rate correct the state;
3. the pose moves along the arc of the corrected twist.

Measurements of the pose (markers) and of the yaw (compass) arrive late and in any order. The filter applies
them at their own time. It keeps half a second of cycles, each with its inputs and the state before any such
measurement. A measurement with stamp t belongs to the cycle that contains t, and is compared with the pose
moved back along the arc to t. The filter then replays the later cycles, with all other measurements in the
order of their stamps. So the estimate does not depend on the time or order of arrival.

The error of a camera's lens is the same in every image and does not average out. So each pose comes with its
sensitivity to each lens error, in addition to its noise. The lens errors are not estimated, but their
covariance with the state is kept (a Schmidt-Kalman filter). A robot that has seen the same markers a thousand
times gets no more certain than its lenses allow; a moving robot gains information as the markers move in the
image.

An unlikely pose is gated. If gated poses agree with each other, related through odometry, for long enough,
the estimate is wrong: the robot was carried away, and the filter restarts from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from swarmbed_core import ekf_kernel as ek
from swarmbed_core import odometry as od
from swarmbed_core.ekf_kernel import Verdict
from swarmbed_core.geometry import between, compose, wrap
from swarmbed_core.health import Health
from swarmbed_core.odometry import Odometry, OdometryParams

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec


@dataclass(frozen=True, slots=True)
class EkfParams:
    """The filter's model of a robot. Every sigma is one standard deviation.

    Attributes:
        odometry: parameters of odometry.
        acceleration_sigma: m/s2 along each axis, the white-noise acceleration from cycle to cycle.
        yaw_acceleration_sigma: rad/s2, the same for the yaw rate.
        speed_max: m/s, the robot's maximum speed.
        yaw_rate_max: rad/s, the robot's maximum yaw rate.
        wheel_sigma: m/s, of one wheel's mean speed over a cycle, independent of the speed.
        slip_fraction: sigma of a wheel's slip over a cycle, as a share of its speed.
        slip_time: s, correlation time of slip; 0 is independent slip in every cycle.
        holonomic: whether the wheels measure sideways motion; if not, it is 0 except for slip.
        gyro_sigma: rad/s, of one reading.
        gyro_bias_sigma: rad/s, of the bias at power-up.
        gyro_bias_walk: rad/s per square root of a second, random walk of the bias.
        gate_probability: share of correct measurements that pass the gate.
        recover_after: number of gated poses that must agree with each other for a restart.
        recover_time: s, the least time that they must span.
        recover_within: s, the longest time between two of them.
        history_time: s, the maximum delay of a measurement.
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
            slip_time: s, correlation time of slip; by default the spec's.
        """
        wheels, imu, limits = spec.drive.wheels, spec.imu, spec.limits
        return cls(
            odometry=OdometryParams.from_spec(spec),
            # Real acceleration lasts many cycles, unlike white noise: with less than three times the limit,
            # the twist would lag visibly behind the wheels.
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
        """Return the parameters as an array for the kernels."""
        cycle = self.odometry.cycle
        alike = math.exp(-cycle / self.slip_time) if self.slip_time > 0.0 else 0.0
        numbers = np.empty(ek.PARAMS_SIZE)
        numbers[: od.ODOMETRY_PARAMS] = self.odometry.array()
        numbers[ek.P_CYCLE] = cycle
        numbers[ek.P_ACCEL] = self.acceleration_sigma
        numbers[ek.P_YAW_ACCEL] = self.yaw_acceleration_sigma
        numbers[ek.P_WHEEL_VAR] = self.wheel_sigma**2
        numbers[ek.P_SLIP2] = self.slip_fraction**2
        # The variance of a sum of correlated noise is (1 + r)/(1 - r) times that of white noise.
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
    """Gated poses, or headings, that agree: the newest, odometry's pose at its time, the start, the count."""

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
            health: counts rejected inputs; by default a new one.
            lens_errors: number of lens errors that come with marker poses.

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
        # A robot is at rest when it is switched on.
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
        """Process one cycle's readings.

        Args:
            stamp: of the readings, in seconds.
            travel: distance that each wheel rolled since power-up, in metres.
            gyro_z: yaw rate in rad/s, or None without a new reading.

        Returns:
            Whether all readings were used; rejected ones are counted in `health`.
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

    def start(self, pose_map: ArrayLike, covariance: ArrayLike) -> Verdict:
        """Restart from the robot's current pose.

        Args:
            pose_map: (x, y, yaw) in `map`.
            covariance: of the pose, 3 x 3.

        Returns:
            INITIALISED, or INVALID if pose or covariance are not valid.
        """
        checked = self._checked(pose_map, covariance)
        if checked is None:
            return Verdict.INVALID
        if self._core[ek.NEWEST] < 0.0:
            self._core[:3] = checked[0]
            self._cov[:3, :3] = checked[1]
            self._core[ek.LOCALISED] = 1.0
            return Verdict.INITIALISED
        return self._restart(float(self._state[od.STAMP]), *checked, self._lenses)

    def add_pose(
        self, stamp: float, pose_map: ArrayLike, covariance: ArrayLike, lens: FloatArray | None = None
    ) -> Verdict:
        """Apply a pose from markers at its time of exposure.

        Args:
            stamp: time of exposure, in seconds.
            pose_map: (x, y, yaw) of the robot in `map`.
            covariance: of its noise, independent in each pose, 3 x 3, in m2, m rad and rad2.
            lens: error of the pose for one standard deviation of each constant lens error, 3 x lens errors;
                by default the lenses are exact.

        Returns:
            The outcome. GATED, TOO_OLD, FUTURE and INVALID are counted in `health`.
        """
        checked = self._checked(pose_map, covariance)
        if checked is None or not math.isfinite(stamp):
            if checked is not None:
                self._health.refuse(
                    "ekf.pose_invalid", f"marker pose with stamp {stamp}: expected finite seconds"
                )
            return Verdict.INVALID
        pose, cov = checked
        if lens is None:
            lens = self._lenses
        elif lens.shape != self._lenses.shape or not np.abs(lens).sum() <= ek.POSE_MAX:
            self._health.refuse(
                "ekf.pose_invalid",
                f"marker pose with lens errors {lens.tolist()}: expected"
                f" {self._lenses.shape[0]} x {self._lenses.shape[1]} finite numbers",
            )
            return Verdict.INVALID
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
        outcome = Verdict(code)
        if outcome is Verdict.ACCEPTED:
            self._candidate = None
            return outcome
        self._count("pose", outcome, stamp, pose)
        if outcome is not Verdict.GATED:
            return outcome
        cov = cov + lens @ lens.T
        if self._lost(float(stamp), pose, cov):
            return self._restart(float(stamp), pose, cov, lens)
        return outcome

    def add_heading(self, stamp: float, heading: float, sigma: float) -> Verdict:
        """Apply a compass heading at its time of measurement.

        Args:
            stamp: time of measurement, in seconds.
            heading: in rad, 0 is +x of `map`.
            sigma: of the heading, in rad.

        Returns:
            The outcome, as for `add_pose`.
        """
        if not (math.isfinite(stamp) and abs(heading) <= ek.ANGLE_MAX and 0.0 <= sigma <= ek.ANGLE_MAX):
            explanation = (
                f"heading {heading} with sigma {sigma} and stamp {stamp}: expected finite numbers, sigma >= 0"
            )
            self._health.refuse("ekf.heading_invalid", explanation)
            return Verdict.INVALID
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
        outcome = Verdict(code)
        if outcome is Verdict.ACCEPTED:
            self._candidate_heading = None
            return outcome
        self._count("heading", outcome, stamp, heading)
        # Markers have priority: a compass that contradicts recent ones is disturbed.
        if outcome is Verdict.GATED and self._core[ek.MARKED] < stamp - self._params.recover_within:
            return self._recover_yaw(float(stamp), float(heading), variance)
        return outcome

    @property
    def pose(self) -> FloatArray:
        """Return (x, y, yaw) in `map`, in metres and radians; meaningless until `localised`."""
        return self._core[:3].copy()

    @property
    def twist_body(self) -> FloatArray:
        """Return (vx, vy, omega) in the body's frame, in m/s and rad/s: the mean over the newest cycle."""
        return self._core[3:6].copy()

    @property
    def gyro_bias(self) -> float:
        """Return the estimated bias of the gyro, in rad/s: its reading minus the true rate."""
        return float(self._core[6])

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance of (x, y, yaw, vx, vy, omega, gyro bias): 7 x 7, SI and radians."""
        return self._cov[:7, :7].copy()

    @property
    def lens_errors(self) -> int:
        """Return the number of lens errors."""
        return self._lenses.shape[1]

    @property
    def localised(self) -> bool:
        """Return whether the filter has been initialised with a pose in `map`."""
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
        """Return the counters of rejected inputs, including odometry's."""
        return self._health

    def _checked(self, pose_map: ArrayLike, covariance: ArrayLike) -> tuple[FloatArray, FloatArray] | None:
        """Return a pose and its covariance as arrays, or None and count them if they are invalid."""
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
            f"pose {pose.tolist()} with covariance {cov.tolist()}: expected finite (x, y, yaw) and a"
            " symmetric positive definite 3 x 3 matrix",
        )
        return None

    def _restart(self, stamp: float, pose: FloatArray, covariance: FloatArray, lens: FloatArray) -> Verdict:
        """Restart from a pose, if its stamp is usable; the covariance includes the lens errors."""
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
        outcome = Verdict(code)
        if outcome is Verdict.ACCEPTED:
            self._candidate = self._candidate_heading = None
            return Verdict.INITIALISED
        self._count("pose", outcome, stamp, pose)
        return outcome

    def _count(self, what: str, outcome: Verdict, stamp: float, value: object) -> None:
        """Count a rejected measurement."""
        now = float(self._state[od.STAMP])
        self._health.refuse(
            f"ekf.{what}_{outcome.name.lower()}", f"{what} {value} with stamp {stamp} at {now}"
        )

    def _agreed(self, old: _Candidate | None, new: _Candidate, predicted_yaw_only: bool) -> _Candidate:
        """Return the candidate updated with one more gated measurement."""
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
        # One outlier among poses that agree must not discard them all.
        return replace(old, count=old.count - 1) if old.count > 1 else new

    def _convinces(self, candidate: _Candidate) -> bool:
        """Return whether a candidate has enough agreeing measurements over enough time."""
        spans = candidate.stamp - candidate.since >= self._params.recover_time
        return spans and candidate.count >= self._params.recover_after

    def _lost(self, stamp: float, pose: FloatArray, covariance: FloatArray) -> bool:
        """Record a gated pose; return whether the gated poses show that the estimate is wrong."""
        new = _Candidate(stamp, pose, covariance, self._core[ek.ODOM : ek.ODOM + 3].copy(), stamp, 1)
        self._candidate = self._agreed(self._candidate, new, predicted_yaw_only=False)
        return self._convinces(self._candidate)

    def _recover_yaw(self, stamp: float, heading: float, variance: float) -> Verdict:
        """Restart the yaw from the compass once enough gated headings agree."""
        odom = self._core[ek.ODOM : ek.ODOM + 3].copy()
        pose = np.array([0.0, 0.0, heading])
        new = _Candidate(stamp, pose, np.diag((1.0, 1.0, variance)), odom, stamp, 1)
        self._candidate_heading = self._agreed(self._candidate_heading, new, predicted_yaw_only=True)
        if not self._convinces(self._candidate_heading):
            return Verdict.GATED
        localised, marked = self._core[ek.LOCALISED], self._core[ek.MARKED]
        pose = self.pose
        pose[2] = heading + wrap(self._state[od.POSE + 2] - odom[2])
        covariance = self._cov[:3, :3].copy()
        covariance[2] = covariance[:, 2] = 0.0
        covariance[2, 2] = variance
        # The position is kept, with its lens errors.
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
