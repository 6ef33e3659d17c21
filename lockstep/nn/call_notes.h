// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::nn {

class Block;

// What a call of a block is of beside its tensors, and what its forward makes beside its outputs:
// another language's numbers, texts and structures. A compiled block is compiled for each
// arrangement, and what its forward left while it was traced is there after each call. For the
// calls that this thread makes of `block` while it lives.
class CallNotes {
 public:
  explicit CallNotes(const Block& block);
  virtual ~CallNotes();
  CallNotes(const CallNotes&) = delete;
  CallNotes& operator=(const CallNotes&) = delete;

  // The innermost of this thread, where that is of this block; else null.
  static CallNotes* of(const Block& block);

  // Two calls of one number differ in their tensors alone; 0 where there is nothing else.
  virtual std::uint64_t arrangement() { return 0; }
  std::shared_ptr<const void> left;

 private:
  const Block& block_;
  CallNotes* outer_;
};

}  // namespace lockstep::nn
