// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/tensor/storage.h"

namespace lockstep::detail {

// Memory that a run uses and leaves: of the largest of the executables that share it, of which one
// runs at a time.
class Arena {
 public:
  explicit Arena(const Device& device) : device_(device) {}

  std::byte* data() const { return storage_->data(); }
  // How often it has moved.
  std::uint64_t growth() const { return growth_; }

  // A larger one takes the place of one that is too small, with room to spare where there is that
  // much; its size class would hardly be asked for again, so the pool does not keep it.
  void reserve(std::size_t bytes) {
    if (storage_ && storage_->bytes() >= bytes) return;
    ++growth_;
    const std::size_t spacious = storage_ ? storage_->bytes() + storage_->bytes() / 4 : 0;
    if (storage_) {
      storage_.reset();
      release_unused_memory(device_);
    }
    if (spacious <= bytes || !try_to_take(spacious)) storage_ = Storage::allocate(bytes, device_);
  }

 private:
  bool try_to_take(std::size_t bytes) {
    try {
      storage_ = Storage::allocate(bytes, device_);
    } catch (const OutOfMemory&) {
    }
    return storage_ != nullptr;
  }

  Device device_;
  std::shared_ptr<Storage> storage_;
  std::uint64_t growth_ = 0;
};

}  // namespace lockstep::detail
