// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/comm/messages/payload.h"

namespace lockstep::comm::detail {

// A message travels in frames: each has this header and at most Payload::kLongestSegment bytes, so
// that messages of higher priority pass between them. Those of one message keep their order.
struct FrameHeader {
  // stale and failed answer a request as reply does; cancel: the rest of a request will not come.
  // hello is a server's first frame: that it comes shows that frames pass.
  enum class Kind : std::uint8_t { request = 1, reply, stale, failed, cancel, hello };
  Kind kind = Kind::hello;
  bool begins_part = false;
  std::uint32_t topic = 0;
  std::uint64_t message = 0;     // the request's number
  std::uint64_t first_open = 0;  // requests below have been answered, and the answers have come
  std::uint64_t generation = 0;
  std::uint32_t parts = 0;         // of the message
  std::uint64_t left_in_part = 0;  // bytes after this frame
};
inline constexpr std::size_t kHeaderBytes = 42;

struct Frame {
  FrameHeader header = {};
  Payload::Segment body = {};
  bool goes_with_next = false;  // another one is sent at once; does not travel
};

std::string to_bytes(const FrameHeader& header);
// Throws Corrupt.
FrameHeader to_header(std::string_view bytes);

// Whole numbers as they travel: little-endian.
void put_number(std::string& to, std::uint64_t number, std::size_t bytes);
std::uint64_t take_number(std::string_view& from, std::size_t bytes);

}  // namespace lockstep::comm::detail
