// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/send_queue.h"

#include <algorithm>

namespace lockstep::comm::detail {

SendQueue::Place SendQueue::push(const FrameHeader& header, Payload payload, int priority) {
  const Place place{-priority, next_++};
  const std::size_t bytes = payload.size();
  Message& message = messages_[place] = {header, std::move(payload), bytes};
  message.header.parts = static_cast<std::uint32_t>(message.payload.parts());
  bytes_ += bytes;
  return place;
}

// Of the next frame's body.
std::size_t SendQueue::next_bytes(const Message& message) const {
  const auto bytes = message.payload.segments(message.part)[message.segment].bytes;
  const std::size_t left = bytes.size() - message.offset;
  if (left <= Payload::kLongestSegment) return left;
  const bool is_lent = memory_ && memory_->contains(bytes);
  return std::min(left, is_lent ? kLentAtOnce : Payload::kLongestSegment);
}

Frame SendQueue::front() const {
  const Message& message = messages_.begin()->second;
  Frame frame{message.header, {}};
  if (message.header.parts == 0) return frame;
  const auto segments = message.payload.segments(message.part);
  const Payload::Segment& segment = segments[message.segment];
  const std::size_t count = next_bytes(message);
  frame.header.begins_part = message.segment == 0 && message.offset == 0;
  frame.header.left_in_part = segment.bytes.size() - message.offset - count;
  for (std::size_t i = message.segment + 1; i < segments.size(); ++i)
    frame.header.left_in_part += segments[i].bytes.size();
  frame.body = {segment.bytes.subspan(message.offset, count), segment.owner};
  const bool ends_part = frame.header.left_in_part == 0;
  frame.goes_with_next =
      messages_.size() > 1 || !ends_part || message.part + 1 < message.header.parts;
  return frame;
}

std::optional<SendQueue::Place> SendQueue::pop() {
  const auto first = messages_.begin();
  Message& message = first->second;
  if (message.header.parts > 0) {
    const auto segments = message.payload.segments(message.part);
    const std::size_t size = segments[message.segment].bytes.size();
    message.offset += next_bytes(message);
    if (message.offset < size) return std::nullopt;
    message.offset = 0;
    if (++message.segment < segments.size()) return std::nullopt;
    message.segment = 0;
    if (++message.part < message.header.parts) return std::nullopt;
  }
  const Place place = first->first;
  erase(first);
  return place;
}

bool SendQueue::remove(const Place& place) {
  const auto found = messages_.find(place);
  if (found == messages_.end()) return false;
  const Message& message = found->second;
  const bool has_begun = message.part > 0 || message.segment > 0 || message.offset > 0;
  erase(found);
  return has_begun;
}

void SendQueue::erase(std::map<Place, Message>::iterator place) {
  bytes_ -= place->second.bytes;
  messages_.erase(place);
}

bool SendQueue::contains(std::uint64_t message) const {
  return std::any_of(messages_.begin(), messages_.end(),
                     [&](const auto& one) { return one.second.header.message == message; });
}

void SendQueue::clear() {
  messages_.clear();
  bytes_ = 0;
}

}  // namespace lockstep::comm::detail
