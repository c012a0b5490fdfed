// Images of the world for robots' cameras, drawn by Gazebo 11's OGRE.
//
// OGRE's context is the main thread's, requests are read in the physics thread: that one waits until the image is
// there, so what an image shows is where the bodies are at that moment. What is seen is put there just before.
#pragma once

#include <gazebo/common/Events.hh>
#include <gazebo/physics/physics.hh>
#include <gazebo/rendering/rendering.hh>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace swarmbed {

// What is to be drawn, as swarmbed_gazebo/stage.py asks for it.
struct View {
  double place[3], forward[3], up[3];
  double left, right, bottom, top, near, far;
  uint32_t width, height;
};

class Eyes {
 public:
  // Whether this server can draw at all; its world needs a camera too, or Gazebo's own loop does not.
  static bool CanOpen() {
    using gazebo::rendering::RenderEngine;
    return RenderEngine::Instance()->GetRenderPathType() != RenderEngine::NONE;
  }

  explicit Eyes(gazebo::physics::WorldPtr world) : world_(std::move(world)) {
    before_ = gazebo::event::Events::ConnectPreRender([this] { Serve(); });
  }

  // All that follows is the physics thread's.

  // Whether images show all that is there and nothing else. What is missing comes while the world goes on.
  bool AreReady() {
    if (!ready_) ready_ = Ask(nullptr) && complete_;
    return ready_;
  }

  // Models come, or this one goes.
  void Comes() { ready_ = false; }
  void Goes(const gazebo::physics::ModelPtr& model) {
    for (const auto& link : model->GetLinks()) gone_.push_back(link->GetId());
    ready_ = false;
  }

  // What a light shows from the next image on.
  void Show(const std::string& name, const ignition::math::Color& colour) {
    std::lock_guard<std::mutex> lock(mutex_);
    shown_[name] = colour;
  }

  // An image, its first row at the bottom. If there is none, why: other than that many bytes tell the proxy so.
  const std::vector<char>& Look(const View& view) {
    if (view.width == 0 || view.height == 0 || view.width > kMost || view.height > kMost) {
      Fail("no image of this size can be drawn");
    } else if (!Ask(&view)) {
      Fail("an image was not drawn in time");
    }
    return bytes_;
  }

 private:
  static constexpr uint32_t kMost = 4096;
  static constexpr std::chrono::seconds kPatience{30};
  // How long the main thread waits for the next image before it looks after what else it has to do.
  static constexpr std::chrono::milliseconds kLinger{20};

  // Lets the main thread draw or, without a view, look whether all is there; false if it does not come to it.
  bool Ask(const View* view) {
    std::unique_lock<std::mutex> lock(mutex_);
    view_ = view;
    asked_ = true;
    changed_.notify_all();
    if (changed_.wait_for(lock, kPatience, [this] { return !asked_; })) return true;
    asked_ = false;
    return false;
  }

  void Fail(const std::string& why) { bytes_.assign(why.begin(), why.end()); }

  // The main thread, while the physics thread waits.
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (changed_.wait_for(lock, kLinger, [this] { return asked_; })) {
      try {
        const auto scene = gazebo::rendering::get_scene(world_->Name());
        if (view_) {
          Draw(*scene, *view_);
        } else {
          complete_ = scene && scene->Initialized() && IsComplete(*scene);
        }
      } catch (const Ogre::Exception& error) {
        Fail(error.getDescription());
      }
      asked_ = false;
      changed_.notify_all();
      // What is missing comes with this thread's other work.
      if (!view_ && !complete_) return;
    }
  }

  // Whether OGRE has heard of all that is there, and no more has what is gone.
  bool IsComplete(const gazebo::rendering::Scene& scene) {
    for (const auto& model : world_->Models()) {
      for (const auto& link : model->GetLinks()) {
        for (const auto& part : link->Visuals()) {
          if (!scene.GetVisual(part.first)) return false;
        }
      }
    }
    for (const auto id : gone_) {
      if (scene.GetVisual(id)) return false;
    }
    gone_.clear();
    return true;
  }

  void Draw(gazebo::rendering::Scene& scene, const View& view) {
    for (const auto& [name, colour] : shown_) {
      const auto light = scene.GetVisual(name);
      if (!light) continue;
      light->SetAmbient(colour);
      light->SetDiffuse(colour);
      light->SetEmissive(colour);
    }
    shown_.clear();
    for (const auto& model : world_->Models()) {
      for (const auto& link : model->GetLinks()) {
        const auto seen = scene.GetVisual(link->GetId());
        if (seen) seen->SetWorldPose(link->WorldPose());
      }
    }
    Prepare(scene, view);
    Aim(view);
    target_->update(false);
    pixels_.resize(4u * view.width * view.height);
    const Ogre::Box part(0, 0, view.width, view.height);
    texture_->getBuffer()->blitToMemory(
        part, Ogre::PixelBox(view.width, view.height, 1, Ogre::PF_BYTE_RGBA, pixels_.data()));
    bytes_.resize(view.width * view.height);
    for (uint32_t row = 0; row < view.height; ++row) {
      const auto* from = pixels_.data() + 4u * view.width * (view.height - 1 - row);
      auto* to = bytes_.data() + view.width * row;
      for (uint32_t k = 0; k < view.width; ++k) {
        // As bright as an eye has it; what is grey stays what it is.
        const auto* rgb = from + 4u * k;
        to[k] = static_cast<char>((77u * rgb[0] + 150u * rgb[1] + 29u * rgb[2]) >> 8);
      }
    }
  }

  // Lets images of all sizes be drawn on one sheet, which is as large as the largest.
  void Prepare(gazebo::rendering::Scene& scene, const View& view) {
    if (!camera_) camera_ = scene.OgreSceneManager()->createCamera("swarmbed eyes");
    if (view.width > width_ || view.height > height_) {
      if (target_) Ogre::TextureManager::getSingleton().remove(texture_->getName());
      width_ = std::max(width_, view.width);
      height_ = std::max(height_, view.height);
      texture_ = Ogre::TextureManager::getSingleton().createManual(
          "swarmbed eyes", "General", Ogre::TEX_TYPE_2D, width_, height_, 0, Ogre::PF_BYTE_RGBA, Ogre::TU_RENDERTARGET);
      target_ = texture_->getBuffer()->getRenderTarget();
      target_->setAutoUpdated(false);
      auto* port = target_->addViewport(camera_);
      port->setOverlaysEnabled(false);
      port->setShadowsEnabled(false);
      port->setSkiesEnabled(false);
      port->setVisibilityMask(GZ_VISIBILITY_ALL & ~(GZ_VISIBILITY_GUI | GZ_VISIBILITY_SELECTABLE));
    }
    auto* port = target_->getViewport(0);
    // A share of the sheet is cut to whole pixels.
    port->setDimensions(0, 0, (view.width + 0.5f) / width_, (view.height + 0.5f) / height_);
    port->setBackgroundColour(gazebo::rendering::Conversions::Convert(scene.BackgroundColor()));
  }

  void Aim(const View& view) {
    const Ogre::Vector3 forward(view.forward[0], view.forward[1], view.forward[2]);
    const Ogre::Vector3 up(view.up[0], view.up[1], view.up[2]);
    camera_->setPosition(view.place[0], view.place[1], view.place[2]);
    camera_->setOrientation(Ogre::Quaternion(forward.crossProduct(up), up, -forward));
    camera_->setNearClipDistance(view.near);
    camera_->setFarClipDistance(view.far);
    camera_->setFrustumExtents(view.near * view.left, view.near * view.right, view.near * view.top,
                               view.near * view.bottom);
  }

  gazebo::physics::WorldPtr world_;
  gazebo::event::ConnectionPtr before_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const View* view_ = nullptr;
  bool asked_ = false, complete_ = false, ready_ = false;
  std::vector<char> bytes_;
  std::vector<uint32_t> gone_;
  std::map<std::string, ignition::math::Color> shown_;
  Ogre::Camera* camera_ = nullptr;
  Ogre::TexturePtr texture_;
  Ogre::RenderTexture* target_ = nullptr;
  uint32_t width_ = 0, height_ = 0;
  std::vector<unsigned char> pixels_;
};

}  // namespace swarmbed
