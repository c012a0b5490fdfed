// Tests of the parts that are independent of the simulator: drives, contacts, the connection to the proxy.
#include <sys/socket.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "session.hpp"

using namespace swarmbed;

static int failed = 0;
#define CHECK(what)                                             \
  do {                                                          \
    if (!(what)) {                                              \
      std::printf("line %d does not hold: %s\n", __LINE__, #what); \
      ++failed;                                                 \
    }                                                           \
  } while (false)

static bool Near(double a, double b, double most = 1e-9) { return std::abs(a - b) <= most; }

static const Kind kDisc{3.0, 0.02, 2.0, 20.0, 0.145, 0.197, 1.0, 40.0};

static void Drives() {
  const double dt = 0.002;
  // Below its force limit the velocity converges exponentially, above it the force is at the limit, for any heading.
  for (double yaw : {0.0, 1.0, -2.5}) {
    auto push = Drive(kDisc, {0.001, 0.0, 0.0, 1.0, 0.145}, yaw, 0.0, 0.0, 0.0, dt);
    const double want = 0.001 * (1 - std::exp(-dt / kDriveTime)) / dt;
    CHECK(Near(push.fx, 3.0 * want * std::cos(yaw)) && Near(push.fy, 3.0 * want * std::sin(yaw)));
    CHECK(Near(push.size, want));
    push = Drive(kDisc, {3.0, 4.0, 0.0, 1.0, 0.145}, yaw, 0.0, 0.0, 0.0, dt);
    CHECK(Near(std::hypot(push.fx, push.fy), 6.0) && Near(push.size, 2.0));
  }
  // A robot without power or with a NaN command brakes.
  for (const Want& want : {Want{1.0, 0.0, 0.0, 0.0, 0.145}, Want{NAN, 0.0, 0.0, 1.0, 0.145}}) {
    const auto push = Drive(kDisc, want, 0.0, 0.5, 0.0, 0.0, dt);
    CHECK(Near(push.fx, -6.0) && Near(push.fy, 0.0));
  }
  CHECK(Near(Drive(kDisc, {0.0, 0.0, 100.0, 1.0, 0.145}, 0.0, 0.0, 0.0, 0.0, dt).torque, 0.02 * 20.0));
  // The lateral force on a differential robot is limited by grip and is not counted as its drive's.
  Kind car = kDisc;
  car.holonomic = 0.0;
  const auto push = Drive(car, {0.0, 1.0, 0.0, 1.0, 0.0}, 0.0, 0.0, 0.0, 0.0, dt);
  CHECK(Near(push.fy, 3.0 * kSideGrip) && Near(push.size, 0.0));
}

static void Lifts() {
  CHECK(Near(Lift(kDisc, 0.15, 0.149), 0.05));
  CHECK(Near(Lift(kDisc, 9.0, 0.145), kLiftSpeed) && Near(Lift(kDisc, -9.0, 0.197), -kLiftSpeed));
  CHECK(Near(Lift(kDisc, 9.0, 0.197), 0.0) && Near(Lift(kDisc, NAN, 0.15), 0.0));
}

static void Meetings() {
  Touches touches;
  const Motion fast{0.0, 0.0, 1.0, 0.0, 0.0}, still{1.0, 0.0, 0.0, 0.0, 0.0}, turning{1.0, 0.0, 0.0, 0.0, 2.0};
  // The normal points to the first thing; either order gives the same pair.
  touches.Add(3, 1, fast, still, 0.5, 0.0, -1.0, 0.0, 0.0);
  touches.Add(1, 3, still, fast, 0.5, 0.0, 1.0, 0.0, 0.0);
  CHECK(touches.found().size() == 1 && Near(touches.found().at({1, 3}), 1.0));
  // Separating pairs have closing speed 0, rotation counts, and floors and horizontal faces are ignored.
  touches.Clear();
  touches.Add(1, 2, still, fast, 0.5, 0.0, -1.0, 0.0, 0.0);
  CHECK(Near(touches.found().at({1, 2}), 0.0));
  touches.Add(1, 2, turning, Motion{}, 1.0, 0.5, 1.0, 0.0, 0.0);
  CHECK(Near(touches.found().at({1, 2}), 1.0));
  touches.Add(-1, 2, fast, still, 0.0, 0.0, 1.0, 0.0, 0.0);
  touches.Add(1, 5, fast, still, 0.0, 0.0, 0.0, 0.0, 1.0);
  CHECK(touches.found().size() == 1);
}

static void Talks() {
  int ends[2];
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Line here, there;
  here.Take(ends[0]);
  std::vector<char> bytes;
  Answer answer;
  answer.Put(uint32_t{7});
  answer.Put(2.5);
  // More than a socket holds at a time.
  for (int i = 0; i < 1 << 20; ++i) answer.Put(uint8_t{1});
  std::thread other([&] {
    there.Take(ends[1]);
    CHECK(there.Write(answer.bytes()));
  });
  CHECK(here.Read(&bytes));
  other.join();
  Request request(bytes);
  uint32_t number = 0;
  double value = 0.0;
  CHECK(request.Take(&number) && number == 7 && request.Take(&value) && Near(value, 2.5) && !request.AtEnd());
  std::string text = "as it was";
  CHECK(!request.Take(&text, 1u << 21) && text == "as it was" && request.Take(&text, 3) && text == "\1\1\1");
  Request empty{{}};
  CHECK(empty.AtEnd() && !empty.Take(&value) && Near(value, 2.5));
  // Messages that are too long or truncated are rejected.
  const uint32_t huge = 0xffffffff;
  CHECK(::send(ends[1], &huge, sizeof huge, 0) == sizeof huge && !here.Read(&bytes));
  CHECK(::send(ends[1], &number, 2, 0) == 2 && ::shutdown(ends[1], SHUT_WR) == 0 && !here.Read(&bytes));
  Line nobody;
  CHECK(!nobody.Open("/nowhere/socket") && !nobody.Open(std::string(500, 'x')));
}

// Robots that move without friction along x, with their names.
class Points : public Bodies {
 public:
  struct Point {
    std::string name;
    Stand stand;
  };
  std::vector<Point> points{{"a", {}}, {"b", {}}};
  double lift_speed = 0.0;
  Motion counted;
  int waits = 0;

  void Step(double dt) {
    for (auto& [name, s] : points) s.x += dt * s.vx;
  }
  size_t Robots() const override { return points.size(); }
  size_t Carriers() const override { return 1; }
  Stand Robot(size_t row) override { return points[row].stand; }
  Place Carrier(size_t) override { return {7.0, 8.0, 9.0, 1.0, 0.0, 0.0, 0.0}; }
  void Push(size_t row, const swarmbed::Push& push, double speed, double) override {
    points[row].stand.vx += 0.002 * push.fx / 3.0;
    lift_speed = speed;
  }
  void Lead(size_t row, const Stand& stand, const Motion& motion) override {
    points[row].stand = stand;
    counted = motion;
  }
  void MoveRobot(size_t row, double x, double, double) override { points[row].stand = {x, 0, 0, 0, 0, 0, 0}; }
  void MoveCarriers(size_t, double, double, double) override {}
  size_t RowOf(const std::string& name) const override {
    size_t row = 0;
    while (row < points.size() && points[row].name != name) ++row;
    return row;
  }
  void Alter(const Change& change) override {
    waits = 2;
    if (!change.comes) points.erase(points.begin() + static_cast<std::ptrdiff_t>(RowOf(change.name)));
    if (change.comes) points.push_back({change.name + change.text, {}});
  }
  bool Altered(const Change&) override { return waits-- <= 0; }
};

template <typename... Values>
static std::vector<char> Message(const Values&... values) {
  Answer made;
  (made.Put(values), ...);
  return made.bytes();
}

// Requests are processed step by step and answered after their steps.
static void Serves() {
  const double dt = 0.002;
  char path[] = "/tmp/swarmbed-XXXXXX";
  CHECK(::mkdtemp(path) != nullptr);
  const std::string name = std::string(path) + "/s";
  const int door = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  CHECK(::bind(door, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(door, 1) == 0);
  Points points;
  Session session(&points);
  CHECK(!session.Open(name + "x") && session.Open(name));
  Line proxy;
  proxy.Take(::accept(door, nullptr, nullptr));

  const Want ahead{0.1, 0.0, 0.0, 1.0, 0.19}, still{0.0, 0.0, 0.0, 1.0, 0.145};
  CHECK(proxy.Write(Message(uint32_t{kStep}, uint32_t{3}, kDisc, ahead, kDisc, still)));
  for (int i = 0; i < 3; ++i) {
    CHECK(session.Begin(dt) && session.left() == 3u - i);
    points.Step(dt);
    if (i == 1) session.touches().Add(2, 1, Motion{}, Motion{}, 0.0, 0.0, 1.0, 0.0, 0.0);
    session.End();
  }
  CHECK(Near(points.lift_speed, 0.0));
  // Send the next request before reading the answer, because `Begin` blocks until it arrives.
  CHECK(proxy.Write(Message(uint32_t{kGo}, uint32_t{1}, int32_t{0}, uint32_t{1}, 'a')));
  CHECK(!session.Begin(dt));
  std::vector<char> bytes;
  CHECK(proxy.Read(&bytes) && bytes.size() == sizeof(double) * (2 * 8 + 7 + 3));
  std::vector<double> told(bytes.size() / sizeof(double));
  std::memcpy(told.data(), bytes.data(), bytes.size());
  CHECK(told[0] > 0.0 && told[3] > 0.0 && told[7] > 0.0 && Near(told[8], 0.0) && Near(told[15], 0.0));
  CHECK(Near(told[16], 7.0) && Near(told[22], 0.0) && Near(told[23], 1.0) && Near(told[24], 2.0));
  // Removal takes several updates; later requests are for the remaining robots and for added ones.
  CHECK(!session.Begin(dt));
  CHECK(proxy.Write(Message(uint32_t{kCome}, uint32_t{1}, int32_t{5}, uint32_t{1}, 'c', uint32_t{1}, 'd')));
  CHECK(!session.Begin(dt) && proxy.Read(&bytes) && bytes.size() == sizeof(double) * (8 + 7));
  CHECK(points.points.size() == 2 && points.points[1].name == "cd");
  CHECK(proxy.Write(Message(uint32_t{kMoveRobot}, uint32_t{1}, 4.0, 0.0, 0.0)));
  CHECK(proxy.Write(Message(uint32_t{kStep}, uint32_t{1}, kDisc, still, kDisc, still)));
  CHECK(!session.Begin(dt) && session.Begin(dt) && Near(points.points[1].stand.x, 4.0));
  CHECK(proxy.Read(&bytes) && bytes.size() == sizeof(double) * (16 + 7) && proxy.Read(&bytes));
  std::memcpy(told.data(), bytes.data(), sizeof(double) * 9);
  CHECK(Near(told[8], 4.0));
  // A led robot is put on its way before each step, whatever pushed it, and is at its end after the last.
  session.End();
  points.points[1].stand = {4.0, 1.0, 3.1, 0.0, 0.0, 0.0, 0.0};
  const Want led{9.0, 9.0, 9.0, kLed, 0.19};
  const Way way{5.0, 1.0, -3.1, 0.5, 0.0, 0.1};
  CHECK(proxy.Write(Message(uint32_t{kStep}, uint32_t{4}, kDisc, still, kDisc, led, way)));
  for (int i = 0; i < 4; ++i) {
    CHECK(session.Begin(dt));
    const auto& at = points.points[1].stand;
    CHECK(Near(at.x, 4.0 + 0.25 * i) && Near(at.y, 1.0) && Near(at.vx, 125.0) && Near(at.vy, 0.0));
    CHECK(Near(at.yaw, 3.1 + 0.25 * i * (2.0 * M_PI - 6.2)) && points.lift_speed > 0.0);
    points.Step(dt);
    points.points[1].stand.y = 7.0;
    session.End();
  }
  CHECK(Near(points.points[1].stand.x, 5.0) && Near(points.points[1].stand.y, 1.0));
  CHECK(Near(std::hypot(points.counted.vx, points.counted.vy), 0.5) && points.counted.vx < -0.49 &&
        Near(points.counted.omega, 0.1));
  CHECK(proxy.Write(Message(uint32_t{kStep}, uint32_t{1}, kDisc, still, kDisc, still)));
  CHECK(session.Begin(dt) && proxy.Read(&bytes) && proxy.Read(&bytes) && bytes.size() == sizeof(double) * (16 + 7));
  std::memcpy(told.data(), bytes.data(), sizeof(double) * 16);
  CHECK(Near(told[8], 5.0) && Near(told[9], 1.0) && Near(told[15], 0.0));
  ::close(door);
  ::unlink(name.c_str());
  ::rmdir(path);
}

int main() {
  Serves();
  Drives();
  Lifts();
  Meetings();
  Talks();
  std::printf("%d failed\n", failed);
  return failed ? 1 : 0;
}
