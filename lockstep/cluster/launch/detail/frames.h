// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/base/core_binding.h"
#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster::detail {

// What a launcher and the agent on one of its hosts say to each other, through ssh or a pipe. A
// process is known by its member's id in the job.

// The agent's first word.
struct AgentHello {
  static constexpr char kKind = 'H';
  std::string version = {};
  std::string launcher_address = {};  // as this host sees it
  auto fields() { return std::tie(version, launcher_address); }
};

struct AgentProcess {
  std::int64_t id = 0;
  std::vector<std::string> environment = {};  // NAME=VALUE, besides the task's
  int slot = -1;                              // among the workers of this host; -1: it is none
  auto fields() { return std::tie(id, environment, slot); }
};

// What an agent is to do on its host.
struct AgentTask {
  static constexpr char kKind = 'S';
  std::string folder = {};
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};  // NAME=VALUE, for all processes
  std::vector<AgentProcess> processes = {};
  int slots = 0;  // workers of this host, those that other tasks start too
  Binding binding = Binding::none;
  bool keeps_output = false;  // of the first worker too: it has not our own streams
  bool outlives_launcher = false;
  auto fields() {
    return std::tie(folder, command, environment, processes, slots, binding, keeps_output,
                    outlives_launcher);
  }
};

// To the agent: for its processes. From it: it was asked to stop by that one.
struct SignalFrame {
  static constexpr char kKind = 'K';
  int number = 0;
  auto fields() { return std::tie(number); }
};

// To the agent: this process is out of the job.
struct KillProcess {
  static constexpr char kKind = 'X';
  std::int64_t id = 0;
  auto fields() { return std::tie(id); }
};

// To the agent: a process has failed. The others end by themselves, and who is stopped cannot.
struct JobOver {
  static constexpr char kKind = 'Z';
  auto fields() { return std::tie(); }
};

struct ProcessOutput {
  static constexpr char kKind = 'O';
  std::int64_t id = 0;
  int stream = 1;  // or 2
  std::string bytes = {};
  auto fields() { return std::tie(id, stream, bytes); }
};

struct ProcessEnd {
  static constexpr char kKind = 'E';
  std::int64_t id = 0;
  std::int64_t pid = 0;  // as its host counts
  int status = 0, signal = 0;
  std::string by_agent = {}, by_kernel = {};  // why it did not end by itself
  auto fields() { return std::tie(id, pid, status, signal, by_agent, by_kernel); }
};

// The processes could not be started.
struct StartFailed {
  static constexpr char kKind = 'F';
  std::string text = {};
  auto fields() { return std::tie(text); }
};

// Both ways, all the time.
struct Alive {
  static constexpr char kKind = 'A';
  auto fields() { return std::tie(); }
};

struct Frame {
  char kind = 0;
  std::string fields = {};
  template <class T>
  bool is() const {
    return kind == T::kKind;
  }
  // Throws Corrupt.
  template <class T>
  T as() const {
    return from_bytes<T>(fields);
  }
};

// A login shell may say something before the agent does; its words begin here.
inline constexpr std::string_view kAgentMark = "\nlockstep agent 1\n";

template <Sendable T>
std::string encode(const T& value) {
  return FieldWriter().text(T::kKind + to_bytes(value)).bytes();
}

class FrameReader {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }

  // What stands before the mark goes; false while the mark is not there.
  bool skip_to_mark() {
    const std::size_t mark = bytes_.find(kAgentMark);
    if (mark == std::string::npos) return false;
    bytes_.erase(0, mark + kAgentMark.size());
    return true;
  }

  // Throws Corrupt for what is no frame.
  std::optional<Frame> next() {
    if (bytes_.size() < 8) return {};
    const std::int64_t length = FieldReader(bytes_).number();
    if (length < 1 || length > kLongest)
      throw Corrupt("a message of {} bytes, expected 1 to {}", length, kLongest);
    const auto size = static_cast<std::size_t>(length);
    if (bytes_.size() < 8 + size) return {};
    Frame frame{bytes_[8], bytes_.substr(9, size - 1)};
    bytes_.erase(0, 8 + size);
    return frame;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kLongest = 16 << 20;
  std::string bytes_;
};

}  // namespace lockstep::cluster::detail
