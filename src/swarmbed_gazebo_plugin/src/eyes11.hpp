// Images of the world for robots' cameras, rendered by Gazebo 11's OGRE.
//
// The main thread owns OGRE's context; the physics thread reads requests and waits until the image is rendered, so
// that an image shows the bodies' poses at the request. All visuals are moved to these poses first.
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

// A view to render, as swarmbed_gazebo/stage.py sends it.
struct View {
  double place[3], forward[3], up[3];
  double left, right, bottom, top, near, far;
  uint32_t width, height;
};

class Eyes {
 public:
  // Whether this server can render at all; the world also needs a camera, or Gazebo's render loop stays idle.
  static bool CanOpen() {
    using gazebo::rendering::RenderEngine;
    return RenderEngine::Instance()->GetRenderPathType() != RenderEngine::NONE;
  }

  explicit Eyes(gazebo::physics::WorldPtr world) : world_(std::move(world)) {
    before_ = gazebo::event::Events::ConnectPreRender([this] { Serve(); });
  }

  // All public functions below are called in the physics thread.

  // Whether OGRE's scene matches the world. It catches up only while the world's loop runs.
  bool AreReady() {
    if (!ready_) ready_ = Ask(nullptr) && complete_;
    return ready_;
  }

  // To be called when models are added, or this one is removed.
  void Comes() { ready_ = false; }
  void Goes(const gazebo::physics::ModelPtr& model) {
    for (const auto& link : model->GetLinks()) gone_.push_back(link->GetId());
    ready_ = false;
  }

  // Sets the colour of an LED from the next image on.
  void Show(const std::string& name, const ignition::math::Color& colour) {
    std::lock_guard<std::mutex> lock(mutex_);
    shown_[name] = colour;
  }

  // An image, its first row at the bottom; on failure the reason, which the proxy recognises by its length.
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
  // Time that the main thread waits for the next image before it continues with its other work.
  static constexpr std::chrono::milliseconds kLinger{20};

  // Lets the main thread render or, without a view, check whether the scene is complete; false on a timeout.
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

  // Runs in the main thread while the physics thread waits.
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
      // Missing visuals are created by this thread's other work.
      if (!view_ && !complete_) return;
    }
  }

  // Whether OGRE has the visuals of all models, and none of removed ones.
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
        // Luma weights, whose sum is 256: grey pixels keep their value.
        const auto* rgb = from + 4u * k;
        to[k] = static_cast<char>((77u * rgb[0] + 150u * rgb[1] + 29u * rgb[2]) >> 8);
      }
    }
  }

  // Prepares one render target for images of all sizes, as large as the largest.
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
    // OGRE truncates shares of the target to whole pixels.
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
