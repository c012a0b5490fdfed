// The pairs of things that touched during a control cycle, and their closing speeds. Independent of the simulator.
// The proxy decides whether a contact is new, because it keeps the history.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace swarmbed {

constexpr double kFlat = 0.7;  // vertical part of a normal above which a contact is a platform's under a tray

// Position and velocity of a rigid body in the plane.
struct Motion {
  double x = 0.0, y = 0.0, vx = 0.0, vy = 0.0, omega = 0.0;
};

class Touches {
 public:
  void Clear() { found_.clear(); }

  // Things `one` and `other` touch at (x, y); the normal points from `other` to `one`.
  void Add(int32_t one, int32_t other, const Motion& a, const Motion& b, double x, double y, double nx, double ny,
           double nz) {
    if (one < 0 || other < 0 || one == other || std::abs(nz) > kFlat) return;
    const double ux = a.vx - a.omega * (y - a.y), uy = a.vy + a.omega * (x - a.x);
    const double wx = b.vx - b.omega * (y - b.y), wy = b.vy + b.omega * (x - b.x);
    const double closing = std::max(-((ux - wx) * nx + (uy - wy) * ny), 0.0);
    auto& speed = found_.try_emplace(std::minmax(one, other), 0.0).first->second;
    speed = std::max(speed, closing);
  }

  // Sorted by the things' numbers.
  const std::map<std::pair<int32_t, int32_t>, double>& found() const { return found_; }

 private:
  std::map<std::pair<int32_t, int32_t>, double> found_;
};

}  // namespace swarmbed
