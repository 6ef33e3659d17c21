// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>

#include "lockstep/comm/detail/message_frame.h"

namespace lockstep::comm::detail {

struct Message {
  FrameHeader header = {};
  Payload payload = {};
};

// Makes messages of the frames of one peer.
class Assembler {
 public:
  explicit Assembler(std::size_t longest_message) : longest_(longest_message) {}

  // The message that this frame completes. Throws Corrupt for a message that is too long, for too
  // many unfinished ones, and for frames that do not fit together.
  std::optional<Message> feed(Frame frame);
  void cancel(std::uint64_t message) { unfinished_.erase(message); }

 private:
  struct Unfinished {
    Message message;
    std::size_t bytes = 0;  // that have come or are announced
    std::uint64_t left_in_part = 0;
  };
  void take_begin(Unfinished& one, const Frame& frame) const;

  std::size_t longest_;
  std::map<std::uint64_t, Unfinished> unfinished_;
};

}  // namespace lockstep::comm::detail
