// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/assembler.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm::detail {
namespace {

constexpr std::size_t kMostUnfinished = 64;  // one for each priority in use
constexpr std::uint32_t kMostParts = 1 << 20;

}  // namespace

std::optional<Message> Assembler::feed(Frame frame) {
  const FrameHeader& header = frame.header;
  if (header.parts > kMostParts) throw Corrupt("a message of {} parts", header.parts);
  if (header.parts == 0) return Message{header, {}};
  Unfinished& one = unfinished_[header.message];
  if (unfinished_.size() > kMostUnfinished)
    throw Corrupt("{} messages have begun and not ended", unfinished_.size());
  if (one.message.payload.parts() == 0) one.message.header = header;
  if (header.begins_part)
    take_begin(one, frame);
  else if (one.message.payload.parts() == 0 ||
           one.left_in_part != frame.body.bytes.size() + header.left_in_part)
    throw Corrupt("a part of a message goes on otherwise than it began");
  one.left_in_part = header.left_in_part;
  one.message.payload.append(std::move(frame.body), header.begins_part);
  const bool is_whole =
      one.left_in_part == 0 && one.message.payload.parts() == one.message.header.parts;
  if (!is_whole) return std::nullopt;
  Message message = std::move(one.message);
  unfinished_.erase(message.header.message);
  return message;
}

void Assembler::take_begin(Unfinished& one, const Frame& frame) const {
  const std::uint64_t part = frame.body.bytes.size() + frame.header.left_in_part;
  if (one.left_in_part != 0 || one.message.payload.parts() == one.message.header.parts)
    throw Corrupt("a part of a message begins before the one before it ends");
  if (part > longest_ || one.bytes + part > longest_)
    throw Corrupt("a message of more than {} bytes", longest_);
  one.bytes += part;
}

}  // namespace lockstep::comm::detail
