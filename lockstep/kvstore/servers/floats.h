// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "lockstep/comm/messages/payload.h"

namespace lockstep::kvstore {

// The floats [begin, begin + count) of a part: where they lie, or, where they lie in several
// segments, a copy in `scratch`.
const float* floats_at(const comm::Payload& payload, std::size_t part, std::size_t begin,
                       std::size_t count, std::vector<float>& scratch);

// Throws Corrupt unless the payload has `parts` parts, and this one so many floats.
void check_floats(const comm::Payload& payload, std::size_t part, std::size_t count);
void check_parts(const comm::Payload& payload, std::size_t parts);

void copy_floats(const comm::Payload& payload, std::size_t part, std::span<float> to);

// Takes the floats of a message part by part, from part 1 on.
class FloatParts {
 public:
  explicit FloatParts(const comm::Payload& payload) : payload_(payload) {}
  // Throws Corrupt when the next part is not as long.
  void take(std::span<float> to) { copy_floats(payload_, next_++, to); }

 private:
  const comm::Payload& payload_;
  std::size_t next_ = 1;
};

// The floats [begin, begin + count) of part 1 as a part of another payload: where they lie, or a
// copy as above.
void add_slice(comm::Payload& to, const comm::Payload& from, std::size_t begin, std::size_t count);
// A copy of them.
void add_copy(comm::Payload& payload, std::span<const float> floats);
// Floats that are sent where they lie; the owner keeps them.
inline comm::Payload& add_floats(comm::Payload& payload, std::span<const float> floats,
                                 comm::Payload::Owner owner) {
  return payload.add(std::as_bytes(floats), std::move(owner));
}

}  // namespace lockstep::kvstore
