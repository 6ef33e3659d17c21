// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep {

// What a device's pool has given out. `system_allocations` counts requests that went past the pool.
struct MemoryStats {
  std::int64_t live_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t allocations = 0;
  std::int64_t system_allocations = 0;
  std::int64_t pooled_bytes = 0;
};

// Where a pool's blocks come from: the system, or a device's memory.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // An address aligned to kAlignment; null where there is no room, OutOfMemory where never.
  virtual std::byte* take(std::size_t size) = 0;
  virtual void give(std::byte* block, std::size_t size) = 0;
  // What limits the room, for the message of a failure; may be empty.
  virtual std::string limits() const { return {}; }
};

// Blocks are rounded up to a size class, and freed ones wait in their class's list. It never looks
// into a block: the memory may be a device's.
class MemoryPool {
 public:
  // The source outlives the pool.
  explicit MemoryPool(MemorySource& source) : source_(source) {}

  // Throws OutOfMemory.
  std::byte* take(std::size_t bytes);
  void give(std::byte* block, std::size_t bytes);
  // Gives the blocks that wait back to the source.
  void release();
  MemoryStats stats();
  // Sets the peak to what is live now.
  void reset_peak();

 private:
  std::vector<std::byte*>& list(std::size_t size);
  std::byte* from_source(std::size_t size);
  void give_back(std::size_t size, std::vector<std::byte*>& blocks);
  [[noreturn]] void fail(std::size_t size) const;

  MemorySource& source_;
  std::mutex mutex_;
  std::array<std::vector<std::byte*>, 7> small_;  // 64 B to 4 KiB
  std::map<std::size_t, std::vector<std::byte*>> large_;
  MemoryStats stats_;
};

}  // namespace lockstep
