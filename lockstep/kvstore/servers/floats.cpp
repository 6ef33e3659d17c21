// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/floats.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

bool is_aligned(const std::byte* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0;
}

// Bytes from `begin` on, from all segments that have some of them.
void copy_bytes(std::span<const comm::Payload::Segment> segments, std::size_t begin,
                std::span<std::byte> to) {
  for (const auto& [bytes, owner] : segments) {
    if (begin >= bytes.size()) {
      begin -= bytes.size();
      continue;
    }
    const std::size_t count = std::min(bytes.size() - begin, to.size());
    std::memcpy(to.data(), bytes.data() + begin, count);
    to = to.subspan(count);
    begin = 0;
    if (to.empty()) return;
  }
}

}  // namespace

const float* floats_at(const comm::Payload& payload, std::size_t part, std::size_t begin,
                       std::size_t count, std::vector<float>& scratch) {
  const auto segments = payload.segments(part);
  std::size_t offset = begin * sizeof(float);
  for (const auto& [bytes, owner] : segments) {
    const std::byte* place = bytes.data() + offset;
    if (offset < bytes.size() && offset + count * sizeof(float) <= bytes.size() &&
        is_aligned(place))
      return reinterpret_cast<const float*>(place);
    if (offset < bytes.size()) break;
    offset -= bytes.size();
  }
  scratch.resize(count);
  copy_bytes(segments, begin * sizeof(float), std::as_writable_bytes(std::span(scratch)));
  return scratch.data();
}

void check_parts(const comm::Payload& payload, std::size_t parts) {
  if (payload.parts() != parts)
    throw Corrupt("message: {} parts, expected {}", payload.parts(), parts);
}

void check_floats(const comm::Payload& payload, std::size_t part, std::size_t count) {
  if (part >= payload.parts()) throw Corrupt("message: {} parts, no floats", payload.parts());
  if (payload.size(part) / sizeof(float) != count || payload.size(part) % sizeof(float) != 0)
    throw Corrupt("message: {} bytes, expected {} floats", payload.size(part), count);
}

void add_slice(comm::Payload& to, const comm::Payload& from, std::size_t begin, std::size_t count) {
  std::vector<float> copy;
  const float* floats = floats_at(from, 1, begin, count, copy);
  const auto* first = reinterpret_cast<const std::byte*>(floats);
  if (copy.empty())
    for (const auto& [bytes, owner] : from.segments(1))
      if (first >= bytes.data() && first < bytes.data() + bytes.size()) {
        add_floats(to, {floats, count}, owner);
        return;
      }
  add_copy(to, copy);
}

void add_copy(comm::Payload& payload, std::span<const float> floats) {
  const auto copy = std::make_shared<std::vector<float>>(floats.begin(), floats.end());
  add_floats(payload, *copy, copy);
}

void copy_floats(const comm::Payload& payload, std::size_t part, std::span<float> to) {
  check_floats(payload, part, to.size());
  payload.copy_to(part, std::as_writable_bytes(to));
}

}  // namespace lockstep::kvstore
