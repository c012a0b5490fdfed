// Gazebo 11 as the physics of a Swarmbed world: a thin shell around what drive.hpp, touches.hpp and line.hpp do.
//
// It waits in the physics thread for requests and answers each when its steps are over, so that nothing moves
// that nobody asked for. Requests and answers are described in swarmbed_gazebo/physics.py.
#include <gazebo/common/common.hh>
#include <gazebo/gazebo.hh>
#include <gazebo/physics/physics.hh>
#include <gazebo/transport/transport.hh>
#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "drive.hpp"
#include "line.hpp"
#include "touches.hpp"

namespace swarmbed {

namespace physics = gazebo::physics;

constexpr uint32_t kStep = 1, kMoveRobot = 2, kMoveCarriers = 3, kCome = 4, kGo = 5;

class Plugin : public gazebo::WorldPlugin {
 public:
  void Load(physics::WorldPtr world, sdf::ElementPtr sdf) override {
    world_ = world;
    dt_ = world->Physics()->GetMaxStepSize();
    contacts_ = world->Physics()->GetContactManager();
    // Else Gazebo notes contacts only while somebody listens to its topic.
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
    const auto path = sdf->Get<std::string>("socket");
    // By hand, without a proxy, the world stands as it is made.
    if (path.empty()) return;
    if (!line_.Open(path)) {
      gzerr << "swarmbed: nobody listens at " << path << "\n";
      std::_Exit(3);
    }
    begin_ = gazebo::event::Events::ConnectWorldUpdateBegin([this](const gazebo::common::UpdateInfo&) { Begin(); });
    end_ = gazebo::event::Events::ConnectWorldUpdateEnd([this] { End(); });
    node_ = gazebo::transport::NodePtr(new gazebo::transport::Node());
    node_->Init(world->Name());
  }

 private:
  struct Robot {
    Kind kind{};
    Want want{};
    physics::ModelPtr model;
    physics::LinkPtr body;
    physics::JointPtr lift;
    double pushed = 0.0;
  };

  static sdf::ElementPtr Child(const sdf::ElementPtr& sdf, const std::string& name) {
    return sdf->HasElement(name) ? sdf->GetElement(name) : nullptr;
  }

  physics::ModelPtr Model(const std::string& name) {
    auto model = world_->ModelByName(name);
    if (!model) {
      gzerr << "swarmbed: the world has no model '" << name << "'\n";
      std::_Exit(4);
    }
    return model;
  }

  void AddRobot(const std::string& name) {
    Robot robot;
    robot.model = Model(name);
    robot.body = robot.model->GetLink("body");
    robot.lift = robot.model->GetJoint("lift");
    robots_.push_back(robot);
  }

  // The collisions of a model whose names begin so are of this thing.
  void AddThing(const std::string& name, const std::string& begin, int32_t number) {
    for (const auto& link : Model(name)->GetLinks()) {
      for (const auto& collision : link->GetCollisions()) {
        if (collision->GetName().rfind(begin, 0) == 0) thing_of_[collision.get()] = {number, link};
      }
    }
  }

  void Begin() {
    if (!coming_.empty() || !going_.empty()) {
      if (!ComeAndGo()) return;
      // All stands as it stood.
      world_->SetPhysicsEnabled(true);
    }
    while (left_ == 0) {
      if (asked_) Reply();
      if (!line_.Read(&bytes_)) std::_Exit(0);  // whoever started this is gone
      asked_ = true;
      Request request(bytes_);
      uint32_t kind = 0;
      if (!request.Take(&kind)) std::_Exit(5);
      if (kind == kStep) {
        uint32_t steps = 0;
        bool whole = request.Take(&steps) && steps > 0;
        for (auto& robot : robots_) {
          whole = whole && request.Take(&robot.kind) && request.Take(&robot.want);
          robot.pushed = 0.0;
        }
        if (!whole || !request.AtEnd()) std::_Exit(5);
        left_ = total_ = steps;
        touches_.Clear();
      } else if (kind == kCome || kind == kGo) {
        Change(kind, &request);
        return;
      } else {
        touches_.Clear();
        Move(kind, &request);
      }
    }
    motions_.clear();
    for (auto& robot : robots_) {
      const auto pose = robot.body->WorldPose();
      const auto v = robot.body->WorldLinearVel();
      const double omega = robot.body->WorldAngularVel().Z();
      const auto push = Drive(robot.kind, robot.want, pose.Rot().Yaw(), v.X(), v.Y(), omega, dt_);
      robot.body->AddForce({push.fx, push.fy, 0.0});
      robot.body->AddTorque({0.0, 0.0, push.torque});
      robot.pushed += push.size / total_;
      motions_[robot.body.get()] = {pose.Pos().X(), pose.Pos().Y(), v.X(), v.Y(), omega};
      if (robot.lift) {
        motions_[robot.lift->GetChild().get()] = motions_[robot.body.get()];
        robot.lift->SetParam("fmax", 0, robot.kind.lift_force);
        robot.lift->SetParam("vel", 0, Lift(robot.kind, robot.want.platform, Height(robot)));
      }
    }
    for (auto& link : carriers_) {
      const auto at = link->WorldCoGPose().Pos();
      const auto v = link->WorldCoGLinearVel();
      motions_[link.get()] = {at.X(), at.Y(), v.X(), v.Y(), link->WorldAngularVel().Z()};
    }
  }

  // Lets a model come or go. Gazebo does that between its updates, when it likes to: until then nothing moves.
  void Change(uint32_t kind, Request* request) {
    uint32_t is_robot = 0, size = 0;
    std::string name;
    if (!request->Take(&is_robot) || !request->Take(&number_) || !request->Take(&size) ||
        !request->Take(&name, size)) {
      std::_Exit(5);
    }
    is_robot_ = is_robot > 0;
    touches_.Clear();
    world_->SetPhysicsEnabled(false);
    if (kind == kCome) {
      std::string text;
      if (!request->Take(&size) || !request->Take(&text, size)) std::_Exit(5);
      coming_ = name;
      world_->InsertModelString(text);
    } else {
      const auto model = Model(name);
      for (auto part = thing_of_.begin(); part != thing_of_.end();) {
        part = part->second.link->GetModel() == model ? thing_of_.erase(part) : std::next(part);
      }
      motions_.clear();
      robots_.erase(std::remove_if(robots_.begin(), robots_.end(), [&](const Robot& r) { return r.model == model; }),
                    robots_.end());
      going_ = name;
      gazebo::transport::requestNoReply(node_, "entity_delete", name);
    }
  }

  // Whether what was to come or to go has done so.
  bool ComeAndGo() {
    const auto& name = coming_.empty() ? going_ : coming_;
    if ((world_->ModelByName(name) != nullptr) != going_.empty()) return false;
    if (!coming_.empty()) {
      if (is_robot_) AddRobot(name);
      AddThing(name, "", static_cast<int32_t>(number_));
    }
    coming_.clear();
    going_.clear();
    return true;
  }

  void Move(uint32_t kind, Request* request) {
    uint32_t row = 0;
    double x = 0.0, y = 0.0, yaw = 0.0;
    if (!request->Take(&row) || !request->Take(&x) || !request->Take(&y) || !request->Take(&yaw)) std::_Exit(5);
    physics::ModelPtr model;
    if (kind == kMoveRobot && row < robots_.size()) model = robots_[row].model;
    if (kind == kMoveCarriers && row < carriers_.size()) model = carriers_[row]->GetModel();
    if (!model) std::_Exit(5);
    model->SetWorldPose({x, y, 0.0, 0.0, 0.0, yaw});
    model->ResetPhysicsStates();
  }

  void End() {
    if (left_ == 0) return;
    for (unsigned int k = 0; k < contacts_->GetContactCount(); ++k) {
      const auto* contact = contacts_->GetContact(k);
      const auto one = thing_of_.find(contact->collision1), other = thing_of_.find(contact->collision2);
      if (one == thing_of_.end() || other == thing_of_.end()) continue;
      for (int i = 0; i < contact->count; ++i) {
        const auto &at = contact->positions[i], &normal = contact->normals[i];
        touches_.Add(one->second.number, other->second.number, motions_[one->second.link.get()],
                     motions_[other->second.link.get()], at.X(), at.Y(), normal.X(), normal.Y(), normal.Z());
      }
    }
    --left_;
  }

  static double Height(const Robot& robot) {
    return robot.lift ? robot.kind.lowered + robot.lift->Position(0) : 0.0;
  }

  void Reply() {
    answer_.Clear();
    for (auto& robot : robots_) {
      const auto pose = robot.body->WorldPose();
      const auto v = robot.body->WorldLinearVel();
      for (double value : {pose.Pos().X(), pose.Pos().Y(), pose.Rot().Yaw(), v.X(), v.Y(),
                           robot.body->WorldAngularVel().Z(), Height(robot), robot.pushed}) {
        answer_.Put(value);
      }
    }
    for (auto& link : carriers_) {
      const auto pose = link->WorldPose();
      for (double value : {pose.Pos().X(), pose.Pos().Y(), pose.Pos().Z(), pose.Rot().W(), pose.Rot().X(),
                           pose.Rot().Y(), pose.Rot().Z()}) {
        answer_.Put(value);
      }
    }
    for (const auto& [pair, speed] : touches_.found()) {
      answer_.Put(static_cast<double>(pair.first));
      answer_.Put(static_cast<double>(pair.second));
      answer_.Put(speed);
    }
    if (!line_.Write(answer_.bytes())) std::_Exit(0);
  }

  struct Part {
    int32_t number;
    physics::LinkPtr link;
  };

  physics::WorldPtr world_;
  physics::ContactManager* contacts_ = nullptr;
  gazebo::event::ConnectionPtr begin_, end_;
  Line line_;
  std::vector<char> bytes_;
  Answer answer_;
  std::vector<Robot> robots_;
  std::vector<physics::LinkPtr> carriers_;
  std::unordered_map<const physics::Collision*, Part> thing_of_;
  std::unordered_map<const physics::Base*, Motion> motions_;
  Touches touches_;
  gazebo::transport::NodePtr node_;
  std::string coming_, going_;
  uint32_t number_ = 0;
  bool is_robot_ = false;
  uint32_t left_ = 0, total_ = 1;
  double dt_ = 0.0;
  bool asked_ = false;
};

GZ_REGISTER_WORLD_PLUGIN(Plugin)

}  // namespace swarmbed
