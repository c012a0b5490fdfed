// What a robot's drives push with so that its body follows the velocity that is asked for: the law that the
// worlds of swarmbed_sim have too (mujoco_world.drive_k). Nothing here knows a simulator.
#pragma once

#include <algorithm>
#include <cmath>

namespace swarmbed {

constexpr double kDriveTime = 0.02;  // s in which a velocity comes within 37 % of what is asked
constexpr double kSideGrip = 8.0;    // m/s2 at which the wheels of a differential robot slip sideways
constexpr double kLiftTime = 0.02;   // s in which a platform comes within 37 % of its set-point
constexpr double kLiftSpeed = 0.3;   // m/s

// The constants of a robot, in the order in which the proxy sends them.
struct Kind {
  double mass, inertia, acceleration, yaw_acceleration, lowered, raised, holonomic, lift_force;
};

// What a robot's parts ask for, likewise.
struct Want {
  double vx, vy, omega, driven, platform;
};

struct Push {
  double fx, fy, torque, size;
};

// The force over the next `dt` on a body that looks along `yaw` and moves with vx, vy over the floor; `size` is
// the part of its acceleration that the drive has to find.
inline Push Drive(const Kind& kind, const Want& want, double yaw, double vx, double vy, double omega, double dt) {
  const double keep = std::exp(-dt / kDriveTime);
  // In the frame of the middle of the step: the force holds while the robot turns by twice this.
  const double half = 0.5 * dt * omega;
  const double c = std::cos(yaw + half), s = std::sin(yaw + half);
  const double ahead = c * vx + s * vy, left = c * vy - s * vx;
  Want w = want;
  if (!(w.driven > 0.0) || !std::isfinite(w.vx + w.vy + w.omega)) w.vx = w.vy = w.omega = 0.0;
  // What the body shall see at the step's end, whose frame is ahead by as much as the start's is behind.
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
    // Of what holds it sideways only the share that its own way round takes is its drive's.
    across = ahead * omega;
  }
  const double turn =
      std::clamp((1.0 - keep) * (w.omega - omega) / dt, -kind.yaw_acceleration, kind.yaw_acceleration);
  return {kind.mass * (c * push_ahead - s * push_left), kind.mass * (s * push_ahead + c * push_left),
          kind.inertia * turn, std::hypot(push_ahead, across)};
}

// The velocity with which a platform goes from where it is to where it shall be.
inline double Lift(const Kind& kind, double platform, double height) {
  if (!std::isfinite(platform)) return 0.0;
  const double off = std::clamp(platform, kind.lowered, kind.raised) - height;
  return std::clamp(off / kLiftTime, -kLiftSpeed, kLiftSpeed);
}

}  // namespace swarmbed
