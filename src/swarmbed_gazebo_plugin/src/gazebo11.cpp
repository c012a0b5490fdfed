// Gazebo 11 as the physics of a Swarmbed world: a thin adapter around session.hpp.
//
// In the physics thread it waits for requests, and answers each after its steps, so that nothing moves unless
// requested.
#include <algorithm>
#include <gazebo/common/common.hh>
#include <gazebo/gazebo.hh>
#include <gazebo/physics/physics.hh>
#include <gazebo/transport/transport.hh>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "eyes11.hpp"
#include "rays11.hpp"
#include "session.hpp"

namespace swarmbed {

namespace physics = gazebo::physics;

class Plugin : public gazebo::WorldPlugin, private Bodies {
 public:
  void Load(physics::WorldPtr world, sdf::ElementPtr sdf) override {
    const auto path = sdf->Get<std::string>("socket");
    // In a file opened by hand, without a proxy, nothing is driven.
    if (path.empty()) return;
    world_ = world;
    dt_ = world->Physics()->GetMaxStepSize();
    contacts_ = world->Physics()->GetContactManager();
    // Otherwise Gazebo records contacts only while its topic has subscribers.
    contacts_->SetNeverDropContacts(true);
    for (auto robot = Child(sdf, "robot"); robot; robot = robot->GetNextElement("robot")) {
      AddRobot(robot->Get<std::string>("model"));
    }
    for (auto thing = Child(sdf, "thing"); thing; thing = thing->GetNextElement("thing")) {
      AddThing(thing->Get<std::string>("model"), thing->Get<std::string>("collisions"),
               thing->Get<int32_t>("number"));
    }
    for (auto carriers = Child(sdf, "carriers"); carriers; carriers = carriers->GetNextElement("carriers")) {
      carriers_.push_back(Model(carriers->Get<std::string>("model"))->GetLink("link"));
    }
    if (sdf->HasElement("eyes")) OpenEyes();
    if (!session_.Open(path)) {
      gzerr << "swarmbed: nothing listens at " << path << "\n";
      std::_Exit(kNoProxy);
    }
    rays_ = std::make_unique<Rays>(world);
    rays_->List();
    begin_ = gazebo::event::Events::ConnectWorldUpdateBegin([this](const gazebo::common::UpdateInfo&) { Begin(); });
    end_ = gazebo::event::Events::ConnectWorldUpdateEnd([this] { End(); });
    node_ = gazebo::transport::NodePtr(new gazebo::transport::Node());
    node_->Init(world->Name());
    seen_by_ = node_->Advertise<gazebo::msgs::Visual>("~/visual");
    // The server starts paused, until everything is set up.
    world->SetPaused(false);
  }

 private:
  struct Body {
    Stand stand;
    physics::ModelPtr model;
    physics::LinkPtr link;
    physics::JointPtr lift;
  };

  struct Part {
    int32_t number;
    physics::LinkPtr link;
  };

  void OpenEyes() {
    if (!Eyes::CanOpen()) {
      gzerr << "swarmbed: no images can be drawn, because OGRE has no screen with OpenGL: run scripts/setup --gazebo "
               "again (for an installed Gazebo: apt-get install libgl1-mesa-dri), or use vision: corners\n";
      std::_Exit(kNoEyes);
    }
    eyes_ = std::make_unique<Eyes>(world_);
    world_->SetPhysicsEnabled(false);
  }

  // Whether images show everything; until they do, the world's loop has to run without physics.
  bool IsSeen() {
    if (eyes_ && !eyes_->AreReady()) return false;
    world_->SetPhysicsEnabled(true);
    return true;
  }

  static sdf::ElementPtr Child(const sdf::ElementPtr& sdf, const std::string& name) {
    return sdf->HasElement(name) ? sdf->GetElement(name) : nullptr;
  }

  physics::ModelPtr Model(const std::string& name) {
    auto model = world_->ModelByName(name);
    if (!model) {
      gzerr << "swarmbed: the world has no model '" << name << "'\n";
      std::_Exit(kNoModel);
    }
    return model;
  }

  void AddRobot(const std::string& name) {
    Body robot;
    robot.model = Model(name);
    robot.link = robot.model->GetLink("body");
    robot.lift = robot.model->GetJoint("lift");
    robots_.push_back(robot);
  }

  // Assigns a model's collisions whose names start with `begin` to a thing.
  void AddThing(const std::string& name, const std::string& begin, int32_t number) {
    for (const auto& link : Model(name)->GetLinks()) {
      for (const auto& collision : link->GetCollisions()) {
        if (collision->GetName().rfind(begin, 0) == 0) thing_of_[collision.get()] = {number, link};
      }
    }
  }

  void Begin() {
    if (!seen_ && !(seen_ = IsSeen())) return;
    if (!session_.Begin(dt_)) return;
    for (auto& link : carriers_) {
      const auto at = link->WorldCoGPose().Pos();
      const auto v = link->WorldCoGLinearVel();
      motions_[link.get()] = {at.X(), at.Y(), v.X(), v.Y(), link->WorldAngularVel().Z()};
    }
  }

  void End() {
    if (session_.left() == 0) return;
    for (unsigned int k = 0; k < contacts_->GetContactCount(); ++k) {
      const auto* contact = contacts_->GetContact(k);
      const auto one = thing_of_.find(contact->collision1), other = thing_of_.find(contact->collision2);
      if (one == thing_of_.end() || other == thing_of_.end()) continue;
      for (int i = 0; i < contact->count; ++i) {
        const auto &at = contact->positions[i], &normal = contact->normals[i];
        session_.touches().Add(one->second.number, other->second.number, motions_[one->second.link.get()],
                               motions_[other->second.link.get()], at.X(), at.Y(), normal.X(), normal.Y(),
                               normal.Z());
      }
    }
    session_.End();
  }

  size_t Robots() const override { return robots_.size(); }
  size_t Carriers() const override { return carriers_.size(); }

  Stand Robot(size_t row) override {
    auto& robot = robots_[row];
    const auto pose = robot.link->WorldPose();
    const auto v = robot.link->WorldLinearVel();
    const double height = robot.lift ? robot.lift->Position(0) : 0.0;
    const double omega = robot.link->WorldAngularVel().Z();
    return robot.stand = {pose.Pos().X(), pose.Pos().Y(), pose.Rot().Yaw(), v.X(), v.Y(), omega, height};
  }

  Place Carrier(size_t row) override {
    const auto pose = carriers_[row]->WorldPose();
    return {pose.Pos().X(), pose.Pos().Y(), pose.Pos().Z(), pose.Rot().W(),
            pose.Rot().X(), pose.Rot().Y(), pose.Rot().Z()};
  }

  void Push(size_t row, const swarmbed::Push& push, double lift_speed, double lift_force) override {
    auto& robot = robots_[row];
    robot.link->AddForce({push.fx, push.fy, 0.0});
    robot.link->AddTorque({0.0, 0.0, push.torque});
    const auto& s = robot.stand;
    motions_[robot.link.get()] = {s.x, s.y, s.vx, s.vy, s.omega};
    if (!robot.lift) return;
    motions_[robot.lift->GetChild().get()] = motions_[robot.link.get()];
    robot.lift->SetParam("fmax", 0, lift_force);
    robot.lift->SetParam("vel", 0, lift_speed);
  }

  void Lead(size_t row, const Stand& stand, const Motion& counted) override {
    auto& robot = robots_[row];
    robot.model->SetWorldPose({stand.x, stand.y, 0.0, 0.0, 0.0, stand.yaw});
    for (const auto& link : robot.model->GetLinks()) {
      // A platform that moves keeps its own velocity up or down.
      const double up = link == robot.link ? 0.0 : link->WorldLinearVel().Z();
      link->SetLinearVel({stand.vx, stand.vy, up});
      link->SetAngularVel({0.0, 0.0, stand.omega});
      motions_[link.get()] = counted;
    }
  }

  void MoveRobot(size_t row, double x, double y, double yaw) override { Put(robots_[row].model, x, y, yaw); }
  void MoveCarriers(size_t row, double x, double y, double yaw) override {
    Put(carriers_[row]->GetModel(), x, y, yaw);
  }

  static void Put(const physics::ModelPtr& model, double x, double y, double yaw) {
    model->SetWorldPose({x, y, 0.0, 0.0, 0.0, yaw});
    model->ResetPhysicsStates();
  }

  size_t RowOf(const std::string& name) const override {
    const auto is = [&](const Body& robot) { return robot.model->GetName() == name; };
    return static_cast<size_t>(std::find_if(robots_.begin(), robots_.end(), is) - robots_.begin());
  }

  // Gazebo adds and removes models between its updates, at an unspecified time.
  void Alter(const Change& change) override {
    world_->SetPhysicsEnabled(false);
    if (change.comes) {
      if (eyes_) eyes_->Comes();
      world_->InsertModelString(change.text);
      return;
    }
    const auto model = Model(change.name);
    if (eyes_) eyes_->Goes(model);
    for (auto part = thing_of_.begin(); part != thing_of_.end();) {
      part = part->second.link->GetModel() == model ? thing_of_.erase(part) : std::next(part);
    }
    motions_.clear();
    const auto row = RowOf(change.name);
    if (row < robots_.size()) robots_.erase(robots_.begin() + static_cast<std::ptrdiff_t>(row));
    gazebo::transport::requestNoReply(node_, "entity_delete", change.name);
  }

  bool Altered(const Change& change) override {
    if ((world_->ModelByName(change.name) != nullptr) != change.comes || !IsSeen()) return false;
    if (change.comes) {
      if (change.is_robot) AddRobot(change.name);
      AddThing(change.name, change.is_robot ? kBody : "", change.number);
    }
    rays_->List();
    return true;
  }

  // Sets the colours of a robot's LEDs, named as in the world file, in connected windows and in images.
  void Show(Request* request) {
    uint32_t row = 0, count = 0, colour = 0;
    if (!request->Take(&row) || !request->Take(&count) || row >= robots_.size()) std::_Exit(kNoSense);
    const auto body = robots_[row].link->GetScopedName();
    for (uint32_t k = 0; k < count; ++k) {
      if (!request->Take(&colour)) std::_Exit(kNoSense);
      // The lowest byte is red.
      const ignition::math::Color shown((colour & 255) / 255.0f, (colour >> 8 & 255) / 255.0f,
                                        (colour >> 16 & 255) / 255.0f);
      const auto name = body + "::light" + std::to_string(k);
      if (eyes_) eyes_->Show(name, shown);
      if (!seen_by_->HasConnections()) continue;
      gazebo::msgs::Visual told;
      told.set_name(name);
      told.set_parent_name(body);
      gazebo::msgs::Set(told.mutable_material()->mutable_emissive(), shown);
      gazebo::msgs::Set(told.mutable_material()->mutable_diffuse(), shown);
      seen_by_->Publish(told);
    }
  }

  bool Tell(uint32_t kind, Request* request, Answer* answer) override {
    if (kind == kShoot && eyes_) {
      View view{};
      if (!request->Take(&view) || !request->AtEnd()) std::_Exit(kNoSense);
      answer->Put(eyes_->Look(view));
      return true;
    }
    if (kind == kLights) {
      Show(request);
      return true;
    }
    if (kind != kRays) return false;
    Ring ring;
    if (!ring.Take(request)) std::_Exit(kNoSense);
    rays_->Look();
    for (const auto row : ring.robots) {
      if (row >= robots_.size()) std::_Exit(kNoSense);
      rays_->Cast(ring, robots_[row].model.get(), Robot(row), answer);
    }
    return true;
  }

  physics::WorldPtr world_;
  std::unique_ptr<Rays> rays_;
  std::unique_ptr<Eyes> eyes_;
  bool seen_ = false;
  physics::ContactManager* contacts_ = nullptr;
  gazebo::event::ConnectionPtr begin_, end_;
  gazebo::transport::NodePtr node_;
  gazebo::transport::PublisherPtr seen_by_;
  std::vector<Body> robots_;
  std::vector<physics::LinkPtr> carriers_;
  std::unordered_map<const physics::Collision*, Part> thing_of_;
  std::unordered_map<const physics::Base*, Motion> motions_;
  Session session_{this};
  double dt_ = 0.0;
};

GZ_REGISTER_WORLD_PLUGIN(Plugin)

}  // namespace swarmbed
