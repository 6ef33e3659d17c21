// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

struct MessageBuffer;

// The bytes of a message, in parts. Nothing is copied on the way: what is added is read where it
// lies, and what has come lies where it was received. A payload is a handle, cheap to copy.
class Payload {
 public:
  // Keeps bytes where they are; they do not change before the last owner is gone.
  using Owner = std::shared_ptr<const void>;
  struct Segment {
    std::span<const std::byte> bytes;
    Owner owner;
  };

  Payload() = default;
  // One part with a copy of the text.
  explicit Payload(std::string_view text) { add(std::string(text)); }

  // A part. With an owner of null the bytes outlive every use: a constant's.
  Payload& add(std::span<const std::byte> bytes, Owner owner);
  Payload& add(std::vector<std::byte> bytes);
  Payload& add(std::string bytes);
  Payload& add(const MessageBuffer& buffer);

  std::size_t parts() const { return parts_.size(); }
  // Of all parts, or of one.
  std::size_t size() const;
  std::size_t size(std::size_t part) const;
  // A part that came over a network lies in segments of Payload::kLongestSegment bytes (the last
  // is shorter); one that was added, or came through memory that both ends share, lies in one.
  std::span<const Segment> segments(std::size_t part) const;
  static constexpr std::size_t kLongestSegment = 256 << 10;

  // Throws InvalidArgument when `to` is not as long as the part.
  void copy_to(std::size_t part, std::span<std::byte> to) const;
  std::string text(std::size_t part = 0) const;

  // For those who receive: the part's next bytes, or a new part. Bytes that lie behind the last
  // ones and have the same owner lengthen their segment.
  void append(Segment segment, bool begins_part);

 private:
  std::vector<std::vector<Segment>> parts_;
};

// Memory to write a part into. It is written before it is added, and not after.
struct MessageBuffer {
  std::span<std::byte> bytes;
  Payload::Owner owner;
};

// One of this process's own.
MessageBuffer allocate_buffer(std::size_t bytes);

}  // namespace lockstep::comm
