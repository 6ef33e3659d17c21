// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lockstep/tensor/device.h"
#include "lockstep/tensor/memory_pool.h"

namespace lockstep {

inline constexpr std::size_t kAlignment = 64;

MemoryStats memory_stats(Device device = {});
// Sets the peak to what is live now.
void reset_peak_memory(Device device = {});
// Gives the pool's unused blocks back to the system.
void release_unused_memory(Device device = {});
// Every block of the host's pools is asked for by itself, by std::aligned_alloc: for a program that
// replaces it to watch the ends of blocks. To be called before the first tensor is made; programs
// with an address sanitizer need not.
void keep_blocks_whole();

// A pooled, 64-byte aligned block of bytes of a device. Its contents start undefined.
class Storage {
 public:
  // Throws OutOfMemory.
  static std::shared_ptr<Storage> allocate(std::size_t bytes, Device device);
  // Uses memory that `owner` keeps alive.
  static std::shared_ptr<Storage> borrow(void* data, std::size_t bytes, Device device,
                                         std::shared_ptr<void> owner);
  Storage(std::byte* data, std::size_t bytes, Device device, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  // An address of the device: the host may look there only where is_host() holds.
  std::byte* data() const { return data_; }
  bool is_host() const { return device_.is_host(); }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
  Device device_;
  bool pooled_;
  std::shared_ptr<void> owner_;
};

}  // namespace lockstep
