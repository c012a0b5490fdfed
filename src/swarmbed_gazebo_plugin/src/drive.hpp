// The control law of a robot's drives: the force with which its body follows the commanded velocity. The same law
// as in the worlds of swarmbed_sim (mujoco_world.drive_k). Independent of the simulator.
#pragma once

#include <algorithm>
#include <cmath>

namespace swarmbed {

constexpr double kDriveTime = 0.02;  // s, time constant with which a velocity follows its command
constexpr double kSideGrip = 8.0;    // m/s2, lateral acceleration at which a differential robot's wheels slip
constexpr double kLiftTime = 0.02;   // s, time constant with which a platform follows its set-point
constexpr double kLiftSpeed = 0.3;   // m/s

// The constants of a robot, in the order in which the proxy sends them.
struct Kind {
  double mass, inertia, acceleration, yaw_acceleration, lowered, raised, holonomic, lift_force;
};

// The commands of a robot, likewise. `driven`: 0 brakes, 1 drives, `kLed` is led; see `Way`.
struct Want {
  double vx, vy, omega, driven, platform;
};

constexpr double kLed = 2.0;

// Where a led robot is after the steps, and the velocity in its frame that counts in contacts.
struct Way {
  double x, y, yaw, vx, vy, omega;
};

struct Push {
  double fx, fy, torque, size;
};

// The force during the next `dt` seconds on a body with heading `yaw` and velocity vx, vy in `map`; `size` is the
// part of its acceleration that the drive supplies.
inline Push Drive(const Kind& kind, const Want& want, double yaw, double vx, double vy, double omega, double dt) {
  const double keep = std::exp(-dt / kDriveTime);
  // Work in the frame at mid-step: the force is constant while the robot turns by twice this angle.
  const double half = 0.5 * dt * omega;
  const double c = std::cos(yaw + half), s = std::sin(yaw + half);
  const double ahead = c * vx + s * vy, left = c * vy - s * vx;
  Want w = want;
  if (!(w.driven > 0.0) || !std::isfinite(w.vx + w.vy + w.omega)) w.vx = w.vy = w.omega = 0.0;
  // Target body velocity at the end of the step, whose frame leads mid-step as the start's lags it.
  const double ch = std::cos(half), sh = std::sin(half);
  const double next_ahead = w.vx + keep * (ch * ahead - sh * left - w.vx);
  const double next_left = w.vy + keep * (ch * left + sh * ahead - w.vy);
  double push_ahead = (ch * next_ahead - sh * next_left - ahead) / dt;
  double push_left = (ch * next_left + sh * next_ahead - left) / dt;
  double across = 0.0;
  if (kind.holonomic > 0.0) {
    const double size = std::hypot(push_ahead, push_left);
    if (size > kind.acceleration) {
      push_ahead *= kind.acceleration / size;
      push_left *= kind.acceleration / size;
    }
    across = push_left;
  } else {
    push_ahead = std::clamp(push_ahead, -kind.acceleration, kind.acceleration);
    push_left = std::clamp(push_left, -kSideGrip, kSideGrip);
    // Of the lateral force, the drive supplies only the centripetal part of the robot's own turn.
    across = ahead * omega;
  }
  const double turn =
      std::clamp((1.0 - keep) * (w.omega - omega) / dt, -kind.yaw_acceleration, kind.yaw_acceleration);
  return {kind.mass * (c * push_ahead - s * push_left), kind.mass * (s * push_ahead + c * push_left),
          kind.inertia * turn, std::hypot(push_ahead, across)};
}

// The velocity with which a platform at `height` moves towards its set-point.
inline double Lift(const Kind& kind, double platform, double height) {
  if (!std::isfinite(platform)) return 0.0;
  const double off = std::clamp(platform, kind.lowered, kind.raised) - height;
  return std::clamp(off / kLiftTime, -kLiftSpeed, kLiftSpeed);
}

}  // namespace swarmbed
