// The rays of a ring of distance sensors. Independent of the simulator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "line.hpp"

namespace swarmbed {

// A ring as the proxy describes it: sensors around a robot at one height. Each measures the nearest hit of several
// rays across its field of view.
struct Ring {
  uint32_t rays = 0;
  double height = 0.0, mount_radius = 0.0, field_of_view = 0.0, range = 0.0;
  std::vector<double> angles;
  std::vector<uint32_t> robots;

  bool Take(Request* request) {
    uint32_t sensors = 0, count = 0;
    if (!request->Take(&count) || !request->Take(&sensors) || !request->Take(&rays) || !request->Take(&height) ||
        !request->Take(&mount_radius) || !request->Take(&field_of_view) || !request->Take(&range)) {
      return false;
    }
    for (uint32_t i = 0; i < sensors; ++i) {
      if (!request->Take(&angles.emplace_back())) return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (!request->Take(&robots.emplace_back())) return false;
    }
    return request->AtEnd();
  }

  // The direction of one ray of a sensor whose axis has the direction `axis`.
  double Direction(double axis, uint32_t ray) const {
    return rays > 1 ? axis + field_of_view * (static_cast<double>(ray) / (rays - 1) - 0.5) : axis;
  }
};

// An axis-aligned bounding box, to reject quickly what a ray cannot hit.
struct Bounds {
  double x0, x1, y0, y1, z0, z1;

  bool Near(double x, double y, double z, double reach) const {
    if (z < z0 || z > z1) return false;
    const double dx = std::max({x0 - x, 0.0, x - x1}), dy = std::max({y0 - y, 0.0, y - y1});
    return dx * dx + dy * dy <= reach * reach;
  }

  // Whether a horizontal ray passes through it, given that its height is within the box.
  bool Meets(double x, double y, double dx, double dy, double length) const {
    double enter = 0.0, leave = length;
    return Slab(x, dx, x0, x1, &enter, &leave) && Slab(y, dy, y0, y1, &enter, &leave);
  }

 private:
  static bool Slab(double at, double d, double from, double to, double* enter, double* leave) {
    if (std::abs(d) < 1e-12) return from <= at && at <= to;
    double first = (from - at) / d, last = (to - at) / d;
    if (first > last) std::swap(first, last);
    *enter = std::max(*enter, first);
    *leave = std::min(*leave, last);
    return *enter <= *leave;
  }
};

}  // namespace swarmbed
