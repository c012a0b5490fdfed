"""From set-points and velocity commands to wheel speeds (DOTS paper, III-A7, Figure 9).

Three PID controllers, for x, y and yaw, act on the pose error in the robot's frame. Their output is added to
the set-point's velocity at the middle of the coming cycle (feed-forward). One common factor scales all wheels
to their limits. While the wheels saturate, integration stops; the integral's share of the output is bounded
(`integral_limit`).

A differential robot cannot move sideways, so the lateral error steers it. With `ahead` the speed, the term
`(yaw.p / 2)^2 error_y / ahead` makes the approach to the line critically damped. It fades below a quarter of
full speed, and is limited to a radian. The yaw's integral takes the sum of both errors: integrating only one
would let the two settle against each other.

Velocity commands are slew-rate limited and expire: a command older than `command_timeout`, one from the
future, or a clock that steps backwards ramps the robot down to rest.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.geometry import wrap
from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics, limit_k, wheels_k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Setpoint

# [s] Tolerance for rounding in clocks that sum up steps.
CLOCK_SLACK = 1e-6
# A cycle after a longer gap counts as this many periods.
LONGEST_GAP = 5.0
# Steering towards the line: the share of full speed from which it has full strength, and its limit in rad.
STEERING_SHARE = 0.25
STEERING_ANGLE = 1.0

# Indices into the array of `parameters`.
LINEAR_P, LINEAR_I, LINEAR_D, LINEAR_LIMIT, YAW_P, YAW_I, YAW_D, YAW_LIMIT = range(8)
WHEEL_SPEED, SPEED, YAW_RATE, ACCELERATION, YAW_ACCELERATION, HOLONOMIC, PERIOD = range(8, 15)


class Mode(Enum):
    """The source of the wheel speeds: none, a velocity command, or a path."""

    IDLE = "idle"
    VELOCITY = "velocity"
    PATH = "path"


def parameters(spec: RobotSpec) -> FloatArray:
    """Return a robot's parameters for the kernels, at the indices above."""
    limits, linear, yaw = spec.limits, spec.control.linear, spec.control.yaw
    gains = [linear.p, linear.i, linear.d, linear.integral_limit, yaw.p, yaw.i, yaw.d, yaw.integral_limit]
    tops = [limits.speed, limits.yaw_rate, limits.acceleration, limits.yaw_acceleration]
    return np.array([*gains, spec.drive.wheels.max_speed, *tops, spec.holonomic, 1.0 / spec.control.rate])


@kernel
def track_k(
    state: FloatArray,
    parameters: FloatArray,
    matrix: FloatArray,
    wheel_speeds: FloatArray,
    x: float,
    y: float,
    yaw: float,
    vx: float,
    vy: float,
    omega: float,
    to_x: float,
    to_y: float,
    to_yaw: float,
    to_vx: float,
    to_vy: float,
    to_omega: float,
    to_ax: float,
    to_ay: float,
    to_alpha: float,
    dt: float,
) -> float:
    """Follow a set-point for one cycle and return the saturation factor of the wheels, at most 1.

    `state` holds the integrals' shares of the output (x, y, yaw), then the commanded body velocity. Both are
    updated, and `wheel_speeds` is written. `x`, `y`, `yaw` are the estimated pose in odom, `vx`, `vy`,
    `omega` the estimated velocity in the body frame, `to_...` the set-point in odom: pose, velocity,
    acceleration. `dt` is the time since the last cycle. `parameters` comes from `parameters()`, `matrix` from
    the kinematics.
    """
    holonomic = parameters[HOLONOMIC] > 0.0
    c, s = math.cos(yaw), math.sin(yaw)
    error_x = c * (to_x - x) + s * (to_y - y)
    error_y = c * (to_y - y) - s * (to_x - x)
    error_yaw = wrap(to_yaw - yaw)
    # The output applies to the whole coming cycle: the set-point at its middle is right on average.
    half = parameters[PERIOD] / 2
    to_vx, to_vy, to_omega = to_vx + half * to_ax, to_vy + half * to_ay, to_omega + half * to_alpha
    c, s = math.cos(yaw + half * to_omega), math.sin(yaw + half * to_omega)
    ahead = c * to_vx + s * to_vy
    aside = c * to_vy - s * to_vx
    p, d = parameters[LINEAR_P], parameters[LINEAR_D]
    u_x = ahead + p * error_x + state[0] + d * (ahead - vx)
    u_y = 0.0
    if holonomic:
        u_y = aside + p * error_y + state[1] + d * (aside - vy)
    else:
        slow = max(abs(ahead), STEERING_SHARE * parameters[SPEED])
        steer = parameters[YAW_P] / 4 * error_y * ahead / slow**2
        error_yaw += min(max(steer, -STEERING_ANGLE), STEERING_ANGLE)
    u_yaw = to_omega + parameters[YAW_P] * error_yaw + state[2] + parameters[YAW_D] * (to_omega - omega)
    wheels_k(matrix, u_x, u_y, u_yaw, wheel_speeds)
    factor = limit_k(wheel_speeds, parameters[WHEEL_SPEED])
    if factor == 0.0:
        # The wheel speeds overflowed.
        u_x = u_y = u_yaw = 0.0
    if factor == 1.0:
        limit, step = parameters[LINEAR_LIMIT], parameters[LINEAR_I] * dt
        state[0] = min(max(state[0] + step * error_x, -limit), limit)
        if holonomic:
            state[1] = min(max(state[1] + step * error_y, -limit), limit)
        limit, step = parameters[YAW_LIMIT], parameters[YAW_I] * dt
        state[2] = min(max(state[2] + step * error_yaw, -limit), limit)
    state[3], state[4], state[5] = factor * u_x, factor * u_y, factor * u_yaw
    return factor


@kernel
def slew_k(
    state: FloatArray,
    parameters: FloatArray,
    matrix: FloatArray,
    wheel_speeds: FloatArray,
    vx: float,
    vy: float,
    omega: float,
    dt: float,
) -> float:
    """Ramp towards a body velocity for one cycle and return the saturation factor of the wheels, at most 1.

    Velocity over the floor and yaw rate stay within their limits, and change no faster than the limits allow.
    The integrals are reset: they belong to the previous motion.

    The arguments are as in `track_k`. The ramp starts from the velocity of the last cycle in `state`; `vx`,
    `vy` and `omega` are the target in the body frame.
    """
    state[0] = state[1] = state[2] = 0.0
    scale = parameters[SPEED] / max(math.hypot(vx, vy), parameters[SPEED])
    vx, vy = scale * vx, scale * vy
    omega = min(max(omega, -parameters[YAW_RATE]), parameters[YAW_RATE])
    # Scale the target to the wheels' limits first, so that they do not saturate on the way there.
    wheels_k(matrix, vx, vy, omega, wheel_speeds)
    possible = limit_k(wheel_speeds, parameters[WHEEL_SPEED])
    vx, vy, omega = possible * vx, possible * vy, possible * omega
    most = parameters[YAW_ACCELERATION] * dt
    omega = state[5] + min(max(omega - state[5], -most), most)
    if parameters[HOLONOMIC] > 0.0:
        # The acceleration limit applies over the floor. A velocity that is constant there rotates backwards
        # in the frame of a turning body. A differential robot's velocity always turns with its body.
        turn = 0.5 * (state[5] + omega) * dt
        c, s = math.cos(turn), math.sin(turn)
        state[3], state[4] = c * state[3] + s * state[4], c * state[4] - s * state[3]
    state[5] = omega
    change_x, change_y = vx - state[3], vy - state[4]
    most = parameters[ACCELERATION] * dt
    share = most / max(math.hypot(change_x, change_y), most) if most > 0 else 0.0
    state[3] += share * change_x
    state[4] += share * change_y
    wheels_k(matrix, state[3], state[4], state[5], wheel_speeds)
    factor = limit_k(wheel_speeds, parameters[WHEEL_SPEED])
    state[3], state[4], state[5] = factor * state[3], factor * state[4], factor * state[5]
    return factor * possible


class MotionController:
    """One robot's motion control: velocity commands or set-points in, wheel speeds out.

    Attributes:
        kinematics: of the robot's drive.
        mode: source of the wheel speeds.
    """

    __slots__ = (
        "_command", "_matrix", "_parameters", "_period", "_stamp", "_state", "_time",
        "_timeout", "health", "kinematics", "mode",
    )  # fmt: skip

    def __init__(self, spec: RobotSpec, health: Health | None = None) -> None:
        """Start idle and at rest.

        Args:
            spec: the kind of robot.
            health: counts rejected inputs; by default a new one.
        """
        self.kinematics = Kinematics.of(spec)
        self.health = Health() if health is None else health
        self._matrix = self.kinematics.matrix
        self._parameters = parameters(spec)
        self._period = 1.0 / spec.control.rate
        self._timeout = spec.control.command_timeout
        self._state = np.zeros(6)
        self.reset()

    def reset(self) -> None:
        """Reset commands, integrals and clock, and assume wheels at rest."""
        self.mode = Mode.IDLE
        self._command: tuple[float, float, float] | None = None
        self._stamp = -math.inf
        self._time: float | None = None
        self._state[:] = 0.0

    @property
    def v_body(self) -> tuple[float, float, float]:
        """Return the commanded body velocity of the last cycle (vx, vy, omega), in m/s and rad/s."""
        vx, vy, omega = self._state[3:].tolist()
        return vx, vy, omega

    def command(self, v_body: Sequence[float] | FloatArray, stamp: float) -> bool:
        """Command a body velocity, valid from its stamp until `command_timeout` later.

        Speeds above the robot's limits are clamped. A command that is not finite is rejected and counted as
        `command.not_finite`; the previous command stays in force.

        Returns:
            Whether the command was accepted.
        """
        vx, vy, omega = map(float, v_body)
        if not (math.isfinite(vx) and math.isfinite(vy) and math.isfinite(omega) and math.isfinite(stamp)):
            explanation = f"velocity ({vx}, {vy}, {omega}) at {stamp} s: expected finite numbers"
            self.health.refuse("command.not_finite", explanation)
            return False
        self._command = (vx, vy if self.kinematics.holonomic else 0.0, omega)
        self._stamp = stamp
        self.mode = Mode.VELOCITY
        return True

    def stop(self) -> None:
        """Cancel the command and ramp down to rest."""
        self._command = None
        self.mode = Mode.IDLE

    def drive(self, now: float) -> FloatArray:
        """Return this cycle's wheel speeds for the latest velocity command, or for the ramp to rest."""
        dt = self._tick(now)
        command = self._command
        if command is not None:
            age = now - self._stamp
            if age > self._timeout + CLOCK_SLACK:
                self.health.refuse("command.too_old", f"no velocity command for {age:.3f} s: stopping")
                command = None
            elif age < -CLOCK_SLACK:
                self.health.refuse("command.from_future", f"command stamped {-age:.3f} s ahead: stopping")
                command = None
            if command is None:
                self.stop()
        return self._slew(command or (0.0, 0.0, 0.0), dt)

    def track(
        self,
        now: float,
        pose_odom: Sequence[float] | FloatArray,
        v_body: Sequence[float] | FloatArray,
        setpoint: Setpoint,
    ) -> FloatArray:
        """Return this cycle's wheel speeds for following a set-point.

        Estimates or set-points that are not finite are counted as `control.not_finite` and ramp down to rest.

        Args:
            now: the clock's time.
            pose_odom: the estimated pose.
            v_body: the estimated velocity in the robot's frame.
            setpoint: target pose, velocity and acceleration in odom.
        """
        dt = self._tick(now)
        self._command = None
        self.mode = Mode.PATH
        x, y, yaw = map(float, pose_odom)
        vx, vy, omega = map(float, v_body)
        (to_x, to_y, to_yaw), (to_vx, to_vy, to_omega), (ax, ay, alpha) = setpoint
        total = x + y + yaw + vx + vy + omega + to_x + to_y + to_yaw + to_vx + to_vy + to_omega
        if not math.isfinite(total + ax + ay + alpha):
            explanation = (
                f"pose {(x, y, yaw)}, velocity {(vx, vy, omega)}, {setpoint}: expected finite numbers"
            )
            self.health.refuse("control.not_finite", explanation)
            self.stop()
            return self._slew((0.0, 0.0, 0.0), dt)
        wheel_speeds = np.empty(self._matrix.shape[0])
        track_k(
            self._state, self._parameters, self._matrix, wheel_speeds,
            x, y, yaw, vx, vy, omega, to_x, to_y, to_yaw, to_vx, to_vy, to_omega, ax, ay, alpha, dt,
        )  # fmt: skip
        return wheel_speeds

    def _slew(self, v_body: tuple[float, float, float], dt: float) -> FloatArray:
        wheel_speeds = np.empty(self._matrix.shape[0])
        vx, vy, omega = v_body
        slew_k(self._state, self._parameters, self._matrix, wheel_speeds, vx, vy, omega, dt)
        return wheel_speeds

    def _tick(self, now: float) -> float:
        """Return the time since the last cycle; a clock that stepped back cancels the command."""
        last, self._time = self._time, now
        if not math.isfinite(now):
            self.health.refuse(
                "clock.not_finite", f"the clock reads {now} s: expected a finite time; stopping"
            )
            self._time = last
            self.stop()
            return self._period
        if last is None:
            return self._period
        dt = now - last
        if dt < 0.0:
            self.health.refuse("clock.backwards", f"the clock went from {last} s back to {now} s: stopping")
            self.stop()
            return self._period
        return min(dt, LONGEST_GAP * self._period)
