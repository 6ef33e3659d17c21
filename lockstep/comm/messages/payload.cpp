// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/messages/payload.h"

#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {

Payload& Payload::add(std::span<const std::byte> bytes, Owner owner) {
  parts_.emplace_back().push_back({bytes, std::move(owner)});
  return *this;
}

Payload& Payload::add(std::vector<std::byte> bytes) {
  auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*kept);
  return add(view, std::move(kept));
}

Payload& Payload::add(std::string bytes) {
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  const auto view = std::as_bytes(std::span(*kept));
  return add(view, std::move(kept));
}

Payload& Payload::add(const MessageBuffer& buffer) { return add(buffer.bytes, buffer.owner); }

std::size_t Payload::size() const {
  std::size_t bytes = 0;
  for (std::size_t part = 0; part < parts(); ++part) bytes += size(part);
  return bytes;
}

std::size_t Payload::size(std::size_t part) const {
  std::size_t bytes = 0;
  for (const Segment& segment : segments(part)) bytes += segment.bytes.size();
  return bytes;
}

std::span<const Payload::Segment> Payload::segments(std::size_t part) const {
  if (part >= parts())
    throw InvalidArgument("payload: there is no part {}, it has {}", part, parts());
  return parts_[part];
}

void Payload::copy_to(std::size_t part, std::span<std::byte> to) const {
  if (size(part) != to.size())
    throw InvalidArgument("payload: part {} has {} bytes, expected {}", part, size(part),
                          to.size());
  std::byte* next = to.data();
  for (const Segment& segment : segments(part)) {
    if (segment.bytes.empty()) continue;
    std::memcpy(next, segment.bytes.data(), segment.bytes.size());
    next += segment.bytes.size();
  }
}

std::string Payload::text(std::size_t part) const {
  std::string text(size(part), '\0');
  copy_to(part, std::as_writable_bytes(std::span(text)));
  return text;
}

void Payload::append(Segment segment, bool begins_part) {
  if (begins_part) parts_.emplace_back();
  check(!parts_.empty(), "a payload's bytes begin no part");
  std::vector<Segment>& part = parts_.back();
  const bool goes_on = !part.empty() && segment.owner && part.back().owner == segment.owner &&
                       part.back().bytes.data() + part.back().bytes.size() == segment.bytes.data();
  if (!goes_on) return part.push_back(std::move(segment));
  part.back().bytes = {part.back().bytes.data(), part.back().bytes.size() + segment.bytes.size()};
}

MessageBuffer allocate_buffer(std::size_t bytes) {
  const auto own = std::make_shared_for_overwrite<std::byte[]>(bytes);
  return {{own.get(), bytes}, own};
}

}  // namespace lockstep::comm
