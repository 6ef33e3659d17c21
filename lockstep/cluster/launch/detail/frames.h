// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster::detail {

// What a launcher and the agent on one of its hosts say to each other, through ssh or a pipe.
// From the agent: hello, output, end, failure. To it: start, over. Both ways: signal, alive.
enum class FrameKind : char {
  hello = 'H',    // version, address of the launcher as this host sees it
  start = 'S',    // AgentTask
  signal = 'K',   // number: to the workers; from the agent: it was asked to stop by that one
  over = 'Z',     // a worker has failed: the others end by themselves, and who is stopped cannot
  output = 'O',   // rank, stream, bytes
  end = 'E',      // rank, status, signal, why the agent or the kernel ended it, or nothing
  failure = 'F',  // text: the workers could not be started
  alive = 'A',    // every now and then, so that silence means something
};

struct Frame {
  FrameKind kind = FrameKind::hello;
  std::string fields = {};
};

// A login shell may say something before the agent does; its words begin here.
inline constexpr std::string_view kAgentMark = "\nlockstep agent 1\n";

inline std::string encode(FrameKind kind, const FieldWriter& fields) {
  return FieldWriter().text(static_cast<char>(kind) + fields.bytes()).bytes();
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
    Frame frame{static_cast<FrameKind>(bytes_[8]), bytes_.substr(9, size - 1)};
    bytes_.erase(0, 8 + size);
    return frame;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kLongest = 16 << 20;
  std::string bytes_;
};

// What an agent is to do on its host.
struct AgentTask {
  std::string folder = {};
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};  // NAME=VALUE, for all ranks
  std::vector<int> ranks = {};

  FieldWriter fields() const {
    FieldWriter writer;
    writer.text(folder).texts(command).texts(environment);
    writer.number(static_cast<std::int64_t>(ranks.size()));
    for (const int rank : ranks) writer.number(rank);
    return writer;
  }
  static AgentTask from(std::string_view bytes) {
    FieldReader reader(bytes);
    AgentTask task;
    task.folder = reader.text();
    task.command = reader.texts();
    task.environment = reader.texts();
    for (std::int64_t left = reader.number(); left > 0; --left)
      task.ranks.push_back(static_cast<int>(reader.number()));
    return task;
  }
};

}  // namespace lockstep::cluster::detail
