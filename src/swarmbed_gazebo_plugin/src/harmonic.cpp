// gz-sim 8 (Gazebo Harmonic) as the physics of a Swarmbed world: a thin adapter around session.hpp.
//
// Before each step it waits for requests, and answers each after its steps, so that nothing moves unless requested.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <gz/math/Pose3.hh>
#include <gz/plugin/Register.hh>
#include <gz/sim/Joint.hh>
#include <gz/sim/Link.hh>
#include <gz/sim/Model.hh>
#include <gz/sim/SdfEntityCreator.hh>
#include <gz/sim/System.hh>
#include <gz/sim/Util.hh>
#include <gz/sim/components/AngularVelocityCmd.hh>
#include <gz/sim/components/Collision.hh>
#include <gz/sim/components/ContactSensorData.hh>
#include <gz/sim/components/JointPosition.hh>
#include <gz/sim/components/LinearVelocityCmd.hh>
#include <gz/sim/components/Model.hh>
#include <gz/sim/components/Name.hh>
#include <gz/sim/components/ParentEntity.hh>
#include <gz/sim/components/Pose.hh>
#include <memory>
#include <optional>
#include <sdf/Root.hh>
#include <string>
#include <unordered_map>
#include <vector>

#include "session.hpp"

namespace swarmbed {

namespace sim = gz::sim;
namespace components = gz::sim::components;
using gz::math::Pose3d;
using gz::math::Vector3d;

// Force in N that holds platforms until their drives do.
constexpr double kHold = 1e6;

class Shell : public sim::System, public sim::ISystemConfigure, public sim::ISystemPreUpdate, private Bodies {
 public:
  void Configure(const sim::Entity& world, const std::shared_ptr<const sdf::Element>& sdf,
                 sim::EntityComponentManager& ecm, sim::EventManager& events) override {
    // In a file opened by hand, without a proxy, nothing is driven.
    if (sdf->HasElement("socket")) path_ = sdf->Get<std::string>("socket");
    if (path_.empty()) return;
    world_ = world;
    sdf_ = sdf->Clone();
    creator_ = std::make_unique<sim::SdfEntityCreator>(ecm, events);
  }

  void PreUpdate(const sim::UpdateInfo& info, sim::EntityComponentManager& ecm) override {
    if (path_.empty() || info.paused) return;
    ecm_ = &ecm;
    if (sdf_) {
      if (Grow()) return;
      Find();
      sdf_.reset();
    } else {
      Look();
      Touch();
      session_.End();
    }
    came_now_ = false;
    if (!late_.empty()) {
      Come(late_.front());
      late_.pop_front();
    }
    session_.Begin(std::chrono::duration<double>(info.dt).count());
  }

 private:
  // A robot, or a body of joined carriers.
  struct Body {
    sim::Entity model = sim::kNullEntity;
    std::string name;
    sim::Link link;
    std::optional<sim::Joint> lift;
    Pose3d pose;
    Vector3d velocity;
    double omega = 0.0, height = 0.0;
    bool moved = false;
  };

  // A collision shape of a thing.
  struct Part {
    int32_t number = -1;
    sim::Entity model = sim::kNullEntity, link = sim::kNullEntity;
    Pose3d pose;
  };

  [[noreturn]] static void GiveUp(Ends how, const std::string& why) {
    gzerr << "swarmbed: " << why << std::endl;
    std::_Exit(how);
  }

  sim::Entity ModelOf(const std::string& name) {
    const auto model =
        ecm_->EntityByComponents(components::Name(name), components::Model(), components::ParentEntity(world_));
    if (model == sim::kNullEntity) GiveUp(kNoModel, "the world has no model '" + name + "'");
    return model;
  }

  // Adds the next of the models in the plugin's element; false if there is none.
  bool Grow() {
    const auto next = Child("model");
    if (!next) return false;
    sdf_->RemoveChild(next);
    const auto text = "<sdf version='1.7'>" + next->ToString("") + "</sdf>";
    const sim::Model model(Create(text, next->Get<std::string>("name")));
    const auto lift = model.JointByName(*ecm_, "lift");
    if (lift != sim::kNullEntity) lifts_.emplace_back(lift);
    // Hold all platforms: one that falls to its stop stays there.
    for (auto& joint : lifts_) {
      joint.SetEffortLimits(*ecm_, {{-kHold, kHold}});
      joint.SetVelocity(*ecm_, {0.0});
    }
    return true;
  }

  sim::Entity Create(const std::string& text, const std::string& name) {
    sdf::Root root;
    const auto errors = root.LoadSdfString(text);
    if (!errors.empty() || root.Model() == nullptr) GiveUp(kNoModel, "no file of a model: " + name);
    const auto model = creator_->CreateEntities(root.Model());
    creator_->SetParent(model, world_);
    return model;
  }

  // Looks up the robots, carriers and things that the file names, and connects to the proxy.
  void Find() {
    for (auto robot = Child("robot"); robot; robot = robot->GetNextElement("robot")) {
      AddRobot(ModelOf(robot->Get<std::string>("model")));
    }
    for (auto carriers = Child("carriers"); carriers; carriers = carriers->GetNextElement("carriers")) {
      carriers_.push_back(Known(ModelOf(carriers->Get<std::string>("model")), "link"));
    }
    for (auto thing = Child("thing"); thing; thing = thing->GetNextElement("thing")) {
      AddThing(ModelOf(thing->Get<std::string>("model")), thing->Get<std::string>("collisions"),
               thing->Get<int32_t>("number"));
    }
    if (!session_.Open(path_)) GiveUp(kNoProxy, "nothing listens at " + path_);
  }

  sdf::ElementPtr Child(const std::string& name) {
    return sdf_->HasElement(name) ? sdf_->GetElement(name) : nullptr;
  }

  Body Known(sim::Entity entity, const std::string& link) {
    const sim::Model model(entity);
    Body body;
    body.model = entity;
    body.name = model.Name(*ecm_);
    body.link = sim::Link(model.LinkByName(*ecm_, link));
    body.link.EnableVelocityChecks(*ecm_);
    body.pose = ecm_->Component<components::Pose>(entity)->Data();
    return body;
  }

  void AddRobot(sim::Entity entity) {
    auto robot = Known(entity, "body");
    const auto joint = sim::Model(entity).JointByName(*ecm_, "lift");
    if (joint != sim::kNullEntity) {
      robot.lift = sim::Joint(joint);
      robot.lift->EnablePositionCheck(*ecm_);
    }
    robots_.push_back(std::move(robot));
  }

  // Assigns a model's collisions whose names start with `begin` to a thing.
  void AddThing(sim::Entity entity, const std::string& begin, int32_t number) {
    const sim::Model model(entity);
    for (const auto link : model.Links(*ecm_)) {
      for (const auto shape : sim::Link(link).Collisions(*ecm_)) {
        if (ecm_->Component<components::Name>(shape)->Data().rfind(begin, 0) != 0) continue;
        // With this component, the physics reports the shape's contacts.
        ecm_->CreateComponent(shape, components::ContactSensorData());
        parts_[shape] = {number, entity, link, ecm_->Component<components::Pose>(shape)->Data()};
      }
    }
  }

  // Reads poses and velocities after the last step.
  void Look() {
    for (auto* bodies : {&robots_, &carriers_}) {
      for (auto& body : *bodies) {
        if (body.moved) {
          // Otherwise it would be stopped in every step.
          ecm_->RemoveComponent<components::LinearVelocityCmd>(body.model);
          ecm_->RemoveComponent<components::AngularVelocityCmd>(body.model);
          body.moved = false;
        }
        const auto pose = ecm_->Component<components::Pose>(body.model)->Data();
        // Velocities are updated only when the pose changes: a body with an unchanged pose is at rest.
        const bool stands = pose.Pos().X() == body.pose.Pos().X() && pose.Pos().Y() == body.pose.Pos().Y() &&
                            pose.Pos().Z() == body.pose.Pos().Z() && pose.Rot().X() == body.pose.Rot().X() &&
                            pose.Rot().Y() == body.pose.Rot().Y() && pose.Rot().Z() == body.pose.Rot().Z() &&
                            pose.Rot().W() == body.pose.Rot().W();
        body.pose = pose;
        body.velocity = stands ? Vector3d::Zero : body.link.WorldLinearVelocity(*ecm_).value_or(Vector3d::Zero);
        body.omega = stands ? 0.0 : body.link.WorldAngularVelocity(*ecm_).value_or(Vector3d::Zero).Z();
        if (body.lift) {
          const auto* height = ecm_->Component<components::JointPosition>(body.lift->Entity());
          if (height && !height->Data().empty()) body.height = height->Data()[0];
        }
      }
    }
  }

  // Records the contacts of the last step.
  void Touch() {
    for (const auto& [shape, part] : parts_) {
      const auto* found = ecm_->Component<components::ContactSensorData>(shape);
      if (!found) continue;
      for (const auto& contact : found->Data().contact()) {
        const auto other = parts_.find(contact.collision2().id());
        if (other == parts_.end()) continue;
        // All shapes are convex, so an outward normal points away from the shape's centre.
        const auto middle = sim::worldPose(part.link, *ecm_) * part.pose;
        for (int i = 0; i < std::min(contact.position_size(), contact.normal_size()); ++i) {
          const Vector3d at(contact.position(i).x(), contact.position(i).y(), contact.position(i).z());
          Vector3d normal(contact.normal(i).x(), contact.normal(i).y(), contact.normal(i).z());
          if ((at - middle.Pos()).Dot(normal) > 0.0) normal = -normal;
          session_.touches().Add(part.number, other->second.number, motions_[part.model],
                                 motions_[other->second.model], at.X(), at.Y(), normal.X(), normal.Y(),
                                 normal.Z());
        }
      }
    }
  }

  size_t Robots() const override { return robots_.size(); }
  size_t Carriers() const override { return carriers_.size(); }

  Stand Robot(size_t row) override {
    const auto& robot = robots_[row];
    return {robot.pose.Pos().X(), robot.pose.Pos().Y(), robot.pose.Rot().Yaw(), robot.velocity.X(),
            robot.velocity.Y(),   robot.omega,          robot.height};
  }

  Place Carrier(size_t row) override {
    const auto& pose = carriers_[row].pose;
    return {pose.Pos().X(), pose.Pos().Y(), pose.Pos().Z(), pose.Rot().W(),
            pose.Rot().X(), pose.Rot().Y(), pose.Rot().Z()};
  }

  void Push(size_t row, const swarmbed::Push& push, double lift_speed, double lift_force) override {
    auto& robot = robots_[row];
    robot.link.AddWorldForce(*ecm_, {push.fx, push.fy, 0.0});
    robot.link.AddWorldWrench(*ecm_, Vector3d::Zero, {0.0, 0.0, push.torque});
    if (robot.lift) {
      robot.lift->SetEffortLimits(*ecm_, {{-lift_force, lift_force}});
      robot.lift->SetVelocity(*ecm_, {lift_speed});
    }
    // Closing speeds of the coming step's contacts are computed from the current velocities.
    if (row > 0) return;
    for (const auto* bodies : {&robots_, &carriers_}) {
      for (const auto& b : *bodies) {
        motions_[b.model] = {b.pose.Pos().X(), b.pose.Pos().Y(), b.velocity.X(), b.velocity.Y(), b.omega};
      }
    }
  }

  void Lead(size_t row, const Stand& stand, const Motion& counted) override {
    auto& robot = robots_[row];
    Put(&robot, stand.x, stand.y, stand.yaw);
    robot.velocity = {stand.vx, stand.vy, 0.0};
    robot.omega = stand.omega;
    // Commands of velocities are in the frame in which the last step left the model.
    const auto& frame = ecm_->Component<components::Pose>(robot.model)->Data().Rot();
    ecm_->SetComponentData<components::LinearVelocityCmd>(robot.model, frame.RotateVectorReverse(robot.velocity));
    ecm_->SetComponentData<components::AngularVelocityCmd>(robot.model, Vector3d(0.0, 0.0, stand.omega));
    motions_[robot.model] = counted;
  }

  void MoveRobot(size_t row, double x, double y, double yaw) override { Put(&robots_[row], x, y, yaw); }
  void MoveCarriers(size_t row, double x, double y, double yaw) override { Put(&carriers_[row], x, y, yaw); }

  // The new pose is reported at once and takes effect with the next step.
  void Put(Body* body, double x, double y, double yaw) {
    body->pose = {x, y, 0.0, 0.0, 0.0, yaw};
    body->velocity = Vector3d::Zero;
    body->omega = 0.0;
    body->moved = true;
    sim::Model(body->model).SetWorldPoseCmd(*ecm_, body->pose);
    ecm_->SetComponentData<components::LinearVelocityCmd>(body->model, Vector3d::Zero);
    ecm_->SetComponentData<components::AngularVelocityCmd>(body->model, Vector3d::Zero);
  }

  size_t RowOf(const std::string& name) const override {
    const auto is = [&](const Body& robot) { return robot.name == name; };
    return static_cast<size_t>(std::find_if(robots_.begin(), robots_.end(), is) - robots_.begin());
  }

  void Alter(const Change& change) override {
    if (change.comes) {
      // At most one box is added per step, the others later; robots never wait, because they need a row at once.
      if (came_now_ && !change.is_robot) {
        late_.push_back(change);
      } else {
        Come(change);
      }
      return;
    }
    const auto is = [&](const Change& late) { return late.name == change.name; };
    const auto late = std::find_if(late_.begin(), late_.end(), is);
    if (late != late_.end()) {
      late_.erase(late);
      return;
    }
    const auto row = RowOf(change.name);
    const auto came = came_.find(change.name);
    const auto model = came != came_.end() ? came->second : ModelOf(change.name);
    if (came != came_.end()) came_.erase(came);
    if (row < robots_.size()) robots_.erase(robots_.begin() + static_cast<std::ptrdiff_t>(row));
    for (auto part = parts_.begin(); part != parts_.end();) {
      part = part->second.model == model ? parts_.erase(part) : std::next(part);
    }
    motions_.erase(model);
    creator_->RequestRemoveEntity(model);
  }

  void Come(const Change& change) {
    const auto model = Create(change.text, change.name);
    came_[change.name] = model;
    came_now_ = true;
    if (change.is_robot) AddRobot(model);
    AddThing(model, change.is_robot ? kBody : "", change.number);
  }

  // The components exist at once, and the physics reads them before its next step.
  bool Altered(const Change&) override { return true; }

  std::string path_;
  sdf::ElementPtr sdf_;
  sim::Entity world_ = sim::kNullEntity;
  sim::EntityComponentManager* ecm_ = nullptr;
  std::unique_ptr<sim::SdfEntityCreator> creator_;
  std::vector<Body> robots_, carriers_;
  std::unordered_map<sim::Entity, Part> parts_;
  std::unordered_map<sim::Entity, Motion> motions_;
  std::unordered_map<std::string, sim::Entity> came_;
  std::vector<sim::Joint> lifts_;
  std::deque<Change> late_;
  bool came_now_ = false;
  Session session_{this};
};

}  // namespace swarmbed

GZ_ADD_PLUGIN(swarmbed::Shell, gz::sim::System, swarmbed::Shell::ISystemConfigure, swarmbed::Shell::ISystemPreUpdate)
