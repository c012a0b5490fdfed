"""Consistency check of the filter's covariance: Monte Carlo runs with a known ground truth.

The normalised estimation error squared, NEES = e' P^-1 e, of a consistent filter's pose is chi-square
distributed with 3 degrees of freedom at any time; its sum over n independent runs with 3 n. `nees_study`
simulates a robot whose wheels, gyro and markers have the errors of its `RobotSpec` and of Table II of the
DOTS paper. It runs the filter as a robot would, with late and unordered measurements, and compares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from swarmbed_core.ekf import EkfParams, PoseFilter
from swarmbed_core.ekf_kernel import Verdict
from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel
from swarmbed_core.odometry import arc

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

FINE = 10  # integration steps of the ground truth per cycle
WAVES = 6  # sines in the random motion
BURN_IN = 1.0  # s after the first marker pose that are left out of the statistics


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of a study's ground truth and measurements.

    Attributes:
        speed: m/s, the maximum.
        acceleration: m/s2, the maximum along the robot's own axes.
        yaw_rate: rad/s, the maximum.
        slip_time: s, correlation time of a wheel's slip; 0 is independent slip in every cycle, inf constant.
        marker_rate: Hz, of marker poses.
        marker_sigma: m, m and rad: standard deviations of a marker pose along its own axes.
        latency: s, mean and sigma of the time from exposure to pose.
        outliers: share of marker poses that are outliers.
        outlier_distance: m, their error.
    """

    speed: float = 1.0
    acceleration: float = 2.0
    yaw_rate: float = 1.5
    slip_time: float = 0.0
    marker_rate: float = 30.0
    marker_sigma: tuple[float, float, float] = (0.02, 0.012, 0.015)
    latency: tuple[float, float] = (0.075, 0.011)
    outliers: float = 0.0
    outlier_distance: float = 1.0

    @classmethod
    def of(cls, spec: RobotSpec, *, slip_time: float = 0.0, outliers: float = 0.0) -> Conditions:
        """Return conditions within a kind of robot's limits and with its cameras' latency."""
        limits = spec.limits
        late = [entry for entry in spec.camera_latency if entry.refresh_hz == 30.0]
        latency = (late[-1].mean, late[-1].sigma) if late else cls().latency
        return cls(
            speed=min(1.0, 0.5 * limits.speed),
            acceleration=min(2.0, limits.acceleration),
            yaw_rate=min(1.5, 0.5 * limits.yaw_rate),
            slip_time=slip_time,
            outliers=outliers,
            latency=latency,
        )


@dataclass(frozen=True, slots=True)
class Drive:
    """One simulated run: the ground truth and the parts' readings.

    Attributes:
        stamps: s, of the cycles.
        pose: n x 3, true poses at the stamps.
        twist: n x 3, true mean twists of the body over the cycle that ends at the stamp.
        travel: n x wheels, in m.
        gyro: n, in rad/s; NaN without a gyro.
        markers: (arrival, stamp, pose, covariance), sorted by arrival.
    """

    stamps: FloatArray
    pose: FloatArray
    twist: FloatArray
    travel: FloatArray
    gyro: FloatArray
    markers: list[tuple[float, float, FloatArray, FloatArray]]


@kernel
def _integrate(twist: FloatArray, dt: float, pose: FloatArray) -> None:
    """Integrate piecewise constant twists into poses."""
    for k in range(twist.shape[0]):
        dx, dy, _, _ = arc(twist[k, 0], twist[k, 1], twist[k, 2], pose[k, 2], dt)
        pose[k + 1, 0] = pose[k, 0] + dx
        pose[k + 1, 1] = pose[k, 1] + dy
        pose[k + 1, 2] = pose[k, 2] + twist[k, 2] * dt


def _motion(rng: np.random.Generator, times: FloatArray, peak: float, steepest: float) -> FloatArray:
    """Return a random smooth signal, a sum of sines, with bounded value and slope."""
    rate = rng.uniform(0.2, 3.0, WAVES)
    phase = rng.uniform(0.0, math.tau, WAVES)
    share = rng.uniform(0.2, 1.0, WAVES)
    share /= share.sum()
    scale = min(peak, steepest / float(share @ rate))
    return np.asarray(scale * (np.sin(np.outer(times, rate) + phase) @ share))


def _alike(rng: np.random.Generator, shape: tuple[int, int], keep: float) -> FloatArray:
    """Return unit first-order autoregressive noise: the correlation of successive rows is `keep`."""
    noise = rng.standard_normal(shape)
    for k in range(1, shape[0]):
        noise[k] = keep * noise[k - 1] + math.sqrt(1.0 - keep * keep) * noise[k]
    return noise


def simulate(
    spec: RobotSpec,
    wheel_inverse: FloatArray,
    seconds: float,
    conditions: Conditions,
    rng: np.random.Generator,
) -> Drive:
    """Return one random run of a robot.

    Args:
        spec: the kind of robot, with the errors of its wheels and gyro.
        wheel_inverse: 3 x n, from wheel speeds to the body's twist.
        seconds: duration of the run.
        conditions: of the run.
        rng: of the run.
    """
    wheels, imu, limits = spec.drive.wheels, spec.imu, spec.limits
    cycle = 1.0 / spec.control.rate
    n = round(seconds / cycle)
    fine = cycle / FINE
    times = np.asarray((np.arange(n * FINE) + 0.5) * fine, dtype=np.float64)
    twist = np.zeros((n * FINE, 3))
    turn_limit = min(limits.yaw_acceleration, 5.0)
    # The axes share speed and acceleration, so that their sum stays within the conditions.
    share = math.sqrt(0.5) if spec.holonomic else 1.0
    twist[:, 0] = _motion(rng, times, share * conditions.speed, share * conditions.acceleration)
    if spec.holonomic:
        twist[:, 1] = _motion(rng, times, share * conditions.speed, share * conditions.acceleration)
    twist[:, 2] = _motion(rng, times, conditions.yaw_rate, turn_limit)
    mean = twist.reshape(n, FINE, 3).mean(axis=1)

    keep = math.exp(-cycle / conditions.slip_time) if conditions.slip_time > 0.0 else 0.0
    rolled = mean @ np.linalg.pinv(wheel_inverse).T
    slip = 1.0 + wheels.slip_sigma * _alike(rng, rolled.shape, keep)
    measured = rolled * slip + wheels.speed_sigma * rng.standard_normal(rolled.shape)
    travel = np.vstack((np.zeros(rolled.shape[1]), np.cumsum(measured * cycle, axis=0)))
    tick = math.tau * wheels.radius / (wheels.encoder_ticks * wheels.gear_ratio)
    travel = np.floor(travel / tick) * tick
    if not spec.holonomic:
        # A differential robot slips sideways as much as its wheels do forwards, and nothing measures it.
        speed = np.sqrt((rolled**2).mean(axis=1))
        sideways = wheels.slip_sigma * speed * _alike(rng, (n, 1), keep)[:, 0]
        twist[:, 1] = np.repeat(sideways, FINE)
        mean = twist.reshape(n, FINE, 3).mean(axis=1)

    pose = np.empty((n * FINE + 1, 3))
    pose[0] = rng.uniform((-1.0, -1.0, -math.pi), (1.0, 1.0, math.pi))
    _integrate(twist, fine, pose)

    stamps = np.asarray(np.arange(n + 1) * cycle, dtype=np.float64)
    gyro = np.full(n + 1, math.nan)
    if imu is not None:
        walk = imu.gyro_bias_walk * math.sqrt(cycle) * rng.standard_normal(n + 1)
        bias = imu.gyro_bias_sigma * rng.standard_normal() + np.cumsum(walk)
        ends = np.interp(stamps, times, twist[:, 2])
        gyro = ends + bias + imu.gyro_sigma * rng.standard_normal(n + 1)
    markers = _markers(times[-1], fine, pose, conditions, rng)
    return Drive(stamps, pose[::FINE], np.vstack((mean[:1], mean)), travel, gyro, markers)


def _markers(
    end: float, fine: float, pose: FloatArray, conditions: Conditions, rng: np.random.Generator
) -> list[tuple[float, float, FloatArray, FloatArray]]:
    """Return the marker poses of a run, in the order of arrival."""
    seen: list[tuple[float, float, FloatArray, FloatArray]] = []
    period = 1.0 / conditions.marker_rate
    for stamp in np.arange(rng.uniform(0.0, period), end, period):
        place = int(stamp / fine)
        true = pose[place] + (pose[place + 1] - pose[place]) * (stamp / fine - place)
        # The covariance depends on where the markers are: an ellipse in any direction.
        angle = rng.uniform(0.0, math.pi)
        axes = (
            np.array(
                [
                    [math.cos(angle), -math.sin(angle), 0.3],
                    [math.sin(angle), math.cos(angle), 0.0],
                    [0.0, 0.0, 1.0],
                ]
            )
            * conditions.marker_sigma
        )
        measured = true + axes @ rng.standard_normal(3)
        if rng.random() < conditions.outliers:
            away = rng.uniform(0.0, math.tau)
            measured[:2] += conditions.outlier_distance * np.array([math.cos(away), math.sin(away)])
        measured[2] = wrap(measured[2])
        arrival = stamp + max(0.0, rng.normal(*conditions.latency))
        seen.append((arrival, float(stamp), measured, axes @ axes.T))
    return sorted(seen, key=lambda marker: marker[0])


@dataclass(frozen=True, slots=True)
class Trace:
    """The filter's errors in a run, for every cycle; NaN until the end of the burn-in."""

    nees: FloatArray
    twist_nees: FloatArray
    error: FloatArray
    nis: list[float]
    outcomes: dict[Verdict, int]


def follow(drive: Drive, pose_filter: PoseFilter) -> Trace:
    """Run a filter over a run as a robot does: after each step, add the marker poses that have arrived."""
    n = len(drive.stamps)
    pose, twist, covariance = np.zeros((n, 3)), np.zeros((n, 3)), np.zeros((n, 7, 7))
    nis: list[float] = []
    outcomes = dict.fromkeys(Verdict, 0)
    counted_from = math.inf
    next_marker = 0
    stamps, gyro = drive.stamps.tolist(), drive.gyro.tolist()
    for k, stamp in enumerate(stamps):
        pose_filter.step(stamp, drive.travel[k], None if math.isnan(gyro[k]) else gyro[k])
        while next_marker < len(drive.markers) and drive.markers[next_marker][0] <= stamp:
            _, seen, pose_map, marker_covariance = drive.markers[next_marker]
            next_marker += 1
            outcome = pose_filter.add_pose(seen, pose_map, marker_covariance)
            outcomes[outcome] += 1
            if outcome is Verdict.INITIALISED:
                counted_from = min(counted_from, stamp + BURN_IN)
            elif stamp >= counted_from and outcome is Verdict.ACCEPTED:
                nis.append(pose_filter.distance2)
        pose[k], twist[k], covariance[k] = pose_filter.pose, pose_filter.twist_body, pose_filter.covariance
    error, twist_error = pose - drive.pose, twist - drive.twist
    error[:, 2] = [wrap(turn) for turn in error[:, 2]]
    nees, twist_nees = (
        normalised(error, covariance[:, :3, :3]),
        normalised(twist_error, covariance[:, 3:6, 3:6]),
    )
    skipped = drive.stamps < counted_from
    for values in (nees, twist_nees, error):
        values[skipped] = math.nan
    return Trace(nees, twist_nees, error, nis, outcomes)


def normalised(error: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return e' P^-1 e for each row of errors and its covariance."""
    return np.asarray((error * np.linalg.solve(covariance, error[..., None])[..., 0]).sum(axis=1))


def nees_study(
    seed: int,
    runs: int,
    seconds: float,
    *,
    spec: RobotSpec,
    wheel_inverse: FloatArray,
    conditions: Conditions | None = None,
    params: EkfParams | None = None,
) -> dict[str, float]:
    """Return the consistency of the filter's covariance and the size of its errors.

    Args:
        seed: of the whole study.
        runs: number of independent runs; each draws its own motion, noise, bias and markers.
        seconds: duration of each run.
        spec: the kind of robot.
        wheel_inverse: 3 x n, from wheel speeds to the body's twist.
        conditions: of the ground truth; by default those of `Conditions.of`.
        params: of the filter; by default those of the kind of robot.

    Returns:
        `nees_ratio`: mean NEES of the pose over runs and time, divided by its expectation, 3; 1 is
        consistent, more is overconfident. `nees_within`: share of cycles in which the mean over the runs lies
        within the two-sided 95% bounds `nees_low` and `nees_high`. `twist_nees_ratio`: the same ratio for the
        twist. `nis_ratio`: mean squared distance of the accepted marker poses, divided by 3. `position_rms`
        (m, of one axis), `position_max` (m), `yaw_rms` (rad). `gated`, `refused`: shares of the marker poses.
    """
    conditions = Conditions.of(spec) if conditions is None else conditions
    params = EkfParams.from_spec(spec) if params is None else params
    traces = []
    for sequence in np.random.SeedSequence(seed).spawn(runs):
        drive = simulate(spec, wheel_inverse, seconds, conditions, np.random.default_rng(sequence))
        traces.append(follow(drive, PoseFilter(params, wheel_inverse)))
    nees = np.array([trace.nees for trace in traces])
    counted = ~np.isnan(nees).any(axis=0)
    means = nees[:, counted].mean(axis=0)
    # scipy's chdtri takes the probability of the upper tail.
    low, high = chdtri(3 * runs, 0.975) / runs, chdtri(3 * runs, 0.025) / runs
    error = np.concatenate([trace.error[counted] for trace in traces])
    nis = np.concatenate([trace.nis for trace in traces])
    total = sum(sum(trace.outcomes.values()) for trace in traces)
    gated = sum(trace.outcomes[Verdict.GATED] for trace in traces)
    used = sum(trace.outcomes[Verdict.ACCEPTED] + trace.outcomes[Verdict.INITIALISED] for trace in traces)
    return {
        "runs": runs,
        "seconds": seconds,
        "nees_ratio": float(means.mean() / 3.0),
        "nees_within": float(((means >= low) & (means <= high)).mean()),
        "nees_low": float(low),
        "nees_high": float(high),
        "twist_nees_ratio": float(np.mean([trace.twist_nees[counted] for trace in traces]) / 3.0),
        "nis_ratio": float(nis.mean() / 3.0),
        "position_rms": float(np.sqrt((error[:, :2] ** 2).mean())),
        "position_max": float(np.hypot(error[:, 0], error[:, 1]).max()),
        "yaw_rms": float(np.sqrt((error[:, 2] ** 2).mean())),
        "gated": gated / total,
        "refused": (total - gated - used) / total,
    }
