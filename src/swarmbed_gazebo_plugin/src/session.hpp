// The protocol between the proxy and a simulator: requests, lock-step, drives and answers. Independent of the
// simulator, for which each plugin implements `Bodies`. swarmbed_gazebo/world.py describes requests and answers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "drive.hpp"
#include "line.hpp"
#include "touches.hpp"

namespace swarmbed {

enum Asked : uint32_t { kStep = 1, kMoveRobot = 2, kMoveCarriers = 3, kCome = 4, kGo = 5, kRays = 6, kLights = 7, kShoot = 16 };

// Exit statuses of this process.
enum Ends { kProxyGone = 0, kNoProxy = 3, kNoModel = 4, kNoSense = 5, kNoEyes = 6 };

// Prefix of the names of a robot's collisions that can touch something other than the floor.
constexpr char kBody[] = "body";

// Pose and velocity of a robot in `map`; the height is its platform's above its lowest position.
struct Stand {
  double x = 0.0, y = 0.0, yaw = 0.0, vx = 0.0, vy = 0.0, omega = 0.0, height = 0.0;
};

// Position and quaternion of a body, in the order in which the proxy reads them.
struct Place {
  double x = 0.0, y = 0.0, z = 0.0, w = 1.0, i = 0.0, j = 0.0, k = 0.0;
};

// A model to add or to remove.
struct Change {
  bool comes = false, is_robot = false;
  int32_t number = 0;
  std::string name, text;
};

// A simulator's bodies. The rows of robots and carriers are in the order in which they were added.
class Bodies {
 public:
  virtual ~Bodies() = default;
  virtual size_t Robots() const = 0;
  virtual size_t Carriers() const = 0;
  virtual Stand Robot(size_t row) = 0;
  virtual Place Carrier(size_t row) = 0;
  // Sets the force of a robot's drive and the speed and force limit of its platform for the next step.
  virtual void Push(size_t row, const swarmbed::Push& push, double lift_speed, double lift_force) = 0;
  // Puts a robot at a pose with a velocity for the next step, whatever pushed it; `counted` is for closing speeds.
  virtual void Lead(size_t row, const Stand& stand, const Motion& counted) = 0;
  virtual void MoveRobot(size_t row, double x, double y, double yaw) = 0;
  virtual void MoveCarriers(size_t row, double x, double y, double yaw) = 0;
  // The row of a robot; `Robots()` if there is none of this name.
  virtual size_t RowOf(const std::string& name) const = 0;
  // Starts to add or remove a model; nothing may move until `Altered` returns true.
  virtual void Alter(const swarmbed::Change& change) = 0;
  virtual bool Altered(const swarmbed::Change& change) = 0;
  // Handles a request that only some simulators support and writes its answer; false if it is not one of these.
  virtual bool Tell(uint32_t /*kind*/, Request* /*request*/, Answer* /*answer*/) { return false; }
};

class Session {
 public:
  explicit Session(Bodies* bodies) : bodies_(bodies) {}

  bool Open(const std::string& path) { return line_.Open(path); }

  Touches& touches() { return touches_; }

  // Number of steps until the next answer.
  uint32_t left() const { return left_; }

  // To be called before each step of `dt` seconds: handles requests until one asks for a step. False if the step
  // must not be made yet, because a model is still being added or removed.
  bool Begin(double dt) {
    if (changing_) {
      if (!bodies_->Altered(change_)) return false;
      changing_ = false;
    }
    while (left_ == 0) {
      if (asked_) Reply();
      if (!line_.Read(&bytes_)) std::_Exit(kProxyGone);
      Request request(bytes_);
      uint32_t kind = 0;
      Insist(request.Take(&kind));
      answer_.Clear();
      asked_ = !bodies_->Tell(kind, &request, &answer_);
      if (!asked_) {
        if (!line_.Write(answer_.bytes())) std::_Exit(kProxyGone);
        continue;
      }
      touches_.Clear();
      if (kind == kStep) {
        Step(&request);
      } else if (kind == kMoveRobot || kind == kMoveCarriers) {
        Move(kind, &request);
      } else {
        Insist(kind == kCome || kind == kGo);
        TakeChange(kind, &request);
        wants_.resize(bodies_->Robots());
        const auto row = bodies_->RowOf(change_.name);
        if (!change_.comes && row < wants_.size()) wants_.erase(wants_.begin() + static_cast<std::ptrdiff_t>(row));
        bodies_->Alter(change_);
        if (!bodies_->Altered(change_)) {
          changing_ = true;
          return false;
        }
      }
    }
    dt_ = dt;
    for (size_t row = 0; row < wants_.size(); ++row) {
      const auto stand = bodies_->Robot(row);
      const auto& kind = wants_[row].kind;
      const auto& want = wants_[row].want;
      const auto push = wants_[row].IsLed() ? swarmbed::Push{}
                                            : Drive(kind, want, stand.yaw, stand.vx, stand.vy, stand.omega, dt);
      wants_[row].pushed += push.size / total_;
      bodies_->Push(row, push, Lift(kind, want.platform, kind.lowered + stand.height), kind.lift_force);
    }
    Lead(total_ - left_);
    return true;
  }

  // To be called after each step.
  void End() {
    if (left_ > 0 && --left_ == 0) Lead(total_);
  }

 private:
  struct Wanted {
    Kind kind{};
    Want want{};
    Way way{};
    Stand from{};
    double pushed = 0.0;

    bool IsLed() const { return want.driven == kLed; }
  };

  static void Insist(bool sense) {
    if (!sense) std::_Exit(kNoSense);
  }

  void Step(Request* request) {
    uint32_t steps = 0;
    Insist(request->Take(&steps) && steps > 0);
    wants_.assign(bodies_->Robots(), Wanted{});
    for (auto& wanted : wants_) Insist(request->Take(&wanted.kind) && request->Take(&wanted.want));
    for (auto& wanted : wants_) Insist(!wanted.IsLed() || request->Take(&wanted.way));
    Insist(request->AtEnd());
    left_ = total_ = steps;
  }

  // Puts led robots where they are after `done` of the steps.
  void Lead(uint32_t done) {
    for (size_t row = 0; row < wants_.size(); ++row) {
      if (!wants_[row].IsLed()) continue;
      const auto& way = wants_[row].way;
      auto& from = wants_[row].from;
      if (done == 0) {
        from = bodies_->Robot(row);
        from.vx = (way.x - from.x) / (total_ * dt_);
        from.vy = (way.y - from.y) / (total_ * dt_);
        from.omega = std::remainder(way.yaw - from.yaw, 2.0 * M_PI) / (total_ * dt_);
      }
      auto stand = from;
      stand.x += done * dt_ * from.vx;
      stand.y += done * dt_ * from.vy;
      stand.yaw += done * dt_ * from.omega;
      const double c = std::cos(stand.yaw), s = std::sin(stand.yaw);
      bodies_->Lead(row, stand,
                    {stand.x, stand.y, c * way.vx - s * way.vy, s * way.vx + c * way.vy, way.omega});
    }
  }

  void Move(uint32_t kind, Request* request) {
    uint32_t row = 0;
    double x = 0.0, y = 0.0, yaw = 0.0;
    Insist(request->Take(&row) && request->Take(&x) && request->Take(&y) && request->Take(&yaw));
    if (kind == kMoveRobot) {
      Insist(row < bodies_->Robots());
      bodies_->MoveRobot(row, x, y, yaw);
    } else {
      Insist(row < bodies_->Carriers());
      bodies_->MoveCarriers(row, x, y, yaw);
    }
  }

  void TakeChange(uint32_t kind, Request* request) {
    uint32_t is_robot = 0, size = 0;
    change_ = Change{};
    change_.comes = kind == kCome;
    Insist(request->Take(&is_robot) && request->Take(&change_.number) && request->Take(&size) &&
           request->Take(&change_.name, size));
    change_.is_robot = is_robot > 0;
    if (change_.comes) Insist(request->Take(&size) && request->Take(&change_.text, size));
    Insist(request->AtEnd());
  }

  void Reply() {
    answer_.Clear();
    // Robots added after the last step have not pushed.
    wants_.resize(bodies_->Robots());
    for (size_t row = 0; row < wants_.size(); ++row) {
      answer_.Put(bodies_->Robot(row));
      answer_.Put(wants_[row].pushed);
    }
    for (size_t row = 0; row < bodies_->Carriers(); ++row) answer_.Put(bodies_->Carrier(row));
    for (const auto& [pair, speed] : touches_.found()) {
      answer_.Put(static_cast<double>(pair.first));
      answer_.Put(static_cast<double>(pair.second));
      answer_.Put(speed);
    }
    if (!line_.Write(answer_.bytes())) std::_Exit(kProxyGone);
  }

  Bodies* bodies_;
  Line line_;
  std::vector<char> bytes_;
  Answer answer_;
  std::vector<Wanted> wants_;
  Touches touches_;
  Change change_;
  bool changing_ = false, asked_ = false;
  uint32_t left_ = 0, total_ = 1;
  double dt_ = 0.0;
};

}  // namespace swarmbed
