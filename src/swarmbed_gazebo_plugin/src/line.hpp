// The connection to the proxy: a Unix-domain socket. Requests and answers are a length followed by as many bytes.
// The proxy may die at any time; this process then exits too.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace swarmbed {

constexpr uint32_t kLongest = 1u << 26;  // bytes of a message

// The bytes of a request, read from front to back.
class Request {
 public:
  explicit Request(std::vector<char> bytes) : bytes_(std::move(bytes)) {}

  // Reads a value; false, without changing it, if too few bytes are left.
  template <typename T>
  bool Take(T* value) {
    if (bytes_.size() - at_ < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // Reads `size` bytes as text, likewise.
  bool Take(std::string* text, uint32_t size) {
    if (bytes_.size() - at_ < size) return false;
    text->assign(bytes_.data() + at_, size);
    at_ += size;
    return true;
  }

  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  std::vector<char> bytes_;
  size_t at_ = 0;
};

// The bytes of an answer.
class Answer {
 public:
  template <typename T>
  void Put(const T& value) {
    const auto* from = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), from, from + sizeof(T));
  }
  void Put(const std::vector<char>& bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void Clear() { bytes_.clear(); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

class Line {
 public:
  ~Line() {
    if (socket_ >= 0) ::close(socket_);
  }

  // Connects; false if nothing listens at the path.
  bool Open(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) return false;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return socket_ >= 0 && ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  void Take(int socket) { socket_ = socket; }

  // Reads the next request; false if the connection closed or the length is too large.
  bool Read(std::vector<char>* bytes) {
    uint32_t size = 0;
    if (!ReadAll(&size, sizeof size) || size > kLongest) return false;
    bytes->resize(size);
    return ReadAll(bytes->data(), size);
  }

  bool Write(const std::vector<char>& bytes) {
    const auto size = static_cast<uint32_t>(bytes.size());
    return WriteAll(&size, sizeof size) && WriteAll(bytes.data(), bytes.size());
  }

 private:
  bool ReadAll(void* to, size_t size) {
    for (auto at = static_cast<char*>(to); size > 0;) {
      const auto got = ::recv(socket_, at, size, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }

  bool WriteAll(const void* from, size_t size) {
    for (auto at = static_cast<const char*>(from); size > 0;) {
      const auto put = ::send(socket_, at, size, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      at += put;
      size -= static_cast<size_t>(put);
    }
    return true;
  }

  int socket_ = -1;
};

}  // namespace swarmbed
