// Casts rays on the collision shapes of Gazebo 11's engine, so that distance sensors see what bodies collide with.
#pragma once

#include <gazebo/ode/ode.h>

#include <gazebo/physics/ode/ODECollision.hh>
#include <gazebo/physics/physics.hh>
#include <limits>
#include <vector>

#include "ring.hpp"
#include "session.hpp"

namespace swarmbed {

class Rays {
 public:
  explicit Rays(gazebo::physics::WorldPtr world) : world_(std::move(world)), ray_(dCreateRay(nullptr, 1.0)) {
    dGeomRaySetClosestHit(ray_, 1);
  }
  ~Rays() { dGeomDestroy(ray_); }
  Rays(const Rays&) = delete;
  Rays& operator=(const Rays&) = delete;

  // Lists the current shapes; to be called again after models were added or removed.
  void List() {
    shapes_.clear();
    for (const auto& model : world_->Models()) {
      for (const auto& link : model->GetLinks()) {
        for (const auto& collision : link->GetCollisions()) {
          const auto ode = boost::dynamic_pointer_cast<gazebo::physics::ODECollision>(collision);
          if (ode && ode->GetCollisionId() && dGeomGetClass(ode->GetCollisionId()) != dPlaneClass) {
            shapes_.push_back({ode->GetCollisionId(), model.get(), {}});
          }
        }
      }
    }
  }

  // Updates the bounding boxes.
  void Look() {
    for (auto& shape : shapes_) {
      dReal box[6];
      dGeomGetAABB(shape.geom, box);
      shape.bounds = {box[0], box[1], box[2], box[3], box[4], box[5]};
    }
  }

  // Appends the readings of a robot's ring to the answer, infinity where nothing is hit.
  void Cast(const Ring& ring, const gazebo::physics::Model* own, const Stand& stand, Answer* answer) {
    near_.clear();
    for (const auto& shape : shapes_) {
      if (shape.model != own && shape.bounds.Near(stand.x, stand.y, ring.height, ring.mount_radius + ring.range)) {
        near_.push_back(&shape);
      }
    }
    for (const double angle : ring.angles) {
      const double axis = stand.yaw + angle, ax = std::cos(axis), ay = std::sin(axis);
      // If the robot penetrates a wall, the sensor's face is behind it: its rays would miss the wall.
      double nearest = One(stand.x, stand.y, ring.height, ax, ay, ring.mount_radius);
      if (nearest <= ring.mount_radius) {
        answer->Put(0.0);
        continue;
      }
      const double x = stand.x + ring.mount_radius * ax, y = stand.y + ring.mount_radius * ay;
      nearest = std::numeric_limits<double>::infinity();
      for (uint32_t ray = 0; ray < ring.rays; ++ray) {
        const double direction = ring.Direction(axis, ray);
        nearest = std::min(nearest, One(x, y, ring.height, std::cos(direction), std::sin(direction),
                                        std::min(nearest, ring.range)));
      }
      answer->Put(nearest);
    }
  }

 private:
  struct Shape {
    dGeomID geom;
    const gazebo::physics::Model* model;
    Bounds bounds;
  };

  // The distance to the nearest hit of a ray.
  double One(double x, double y, double z, double dx, double dy, double length) {
    double nearest = std::numeric_limits<double>::infinity();
    bool set = false;
    for (const auto* shape : near_) {
      if (!shape->bounds.Meets(x, y, dx, dy, length)) continue;
      if (!set) {
        dGeomRaySet(ray_, x, y, z, dx, dy, 0.0);
        dGeomRaySetLength(ray_, length);
        set = true;
      }
      dContactGeom contact;
      if (dCollide(ray_, shape->geom, 1, &contact, sizeof contact) > 0) nearest = std::min(nearest, contact.depth);
    }
    return nearest;
  }

  gazebo::physics::WorldPtr world_;
  dGeomID ray_;
  std::vector<Shape> shapes_;
  std::vector<const Shape*> near_;
};

}  // namespace swarmbed
