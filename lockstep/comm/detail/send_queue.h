// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "lockstep/comm/detail/message_frame.h"
#include "lockstep/comm/detail/message_memory.h"

namespace lockstep::comm::detail {

// Messages to one peer: the highest priority first, then the order of coming.
class SendQueue {
 public:
  using Place = std::pair<int, std::uint64_t>;

  // What lies in this memory goes in frames of kLentAtOnce bytes. Null: nothing does.
  explicit SendQueue(std::shared_ptr<const MessageMemory> memory = nullptr)
      : memory_(std::move(memory)) {}

  Place push(const FrameHeader& header, Payload payload, int priority);
  bool is_empty() const { return messages_.empty(); }
  // Of all messages here, sent or not.
  std::size_t bytes() const { return bytes_; }

  Frame front() const;
  // The front has been sent; the message's place when that was its last frame.
  std::optional<Place> pop();
  // True when a part of the message has been sent, and the rest never will.
  bool remove(const Place& place);
  // Whether some of an answer to the request, or all of it, is still to be sent.
  bool contains(std::uint64_t message) const;
  void clear();

 private:
  struct Message {
    FrameHeader header;
    Payload payload;
    std::size_t bytes = 0;
    std::size_t part = 0, segment = 0, offset = 0;  // the next frame's
  };
  void erase(std::map<Place, Message>::iterator place);
  std::size_t next_bytes(const Message& message) const;

  std::shared_ptr<const MessageMemory> memory_;
  std::map<Place, Message> messages_;
  std::uint64_t next_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::comm::detail
