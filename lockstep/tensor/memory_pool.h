// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep {

// What a device's pool has given out. `system_allocations` counts what the source was asked for and
// gave.
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
  // A request above this can never be met, however much is given back before.
  virtual std::size_t largest() const { return std::numeric_limits<std::size_t>::max(); }
  // Another block may follow at once in the same piece of memory. Where that hides mistakes (guard
  // pages, an address sanitizer), each block is asked for by itself.
  virtual bool may_cut() const { return true; }
  // What limits the room, for the message of a failure; may be empty.
  virtual std::string limits() const { return {}; }
};

// Blocks are rounded up to a size class, and freed ones wait in their class's list; that is all
// that happens when a block of the class is waiting. Else small blocks are carved from slabs, a
// large one is cut from a larger one that waits (and joined again later), or the source is asked.
// What waits is bounded: together with what is live it stays below one and a half times the peak
// of late, and a little; what was not used for the longest time goes back first. The pool never
// looks into a block: the memory may be a device's.
class MemoryPool {
 public:
  // The source outlives the pool.
  explicit MemoryPool(MemorySource& source) : source_(source) {}

  // Throws OutOfMemory.
  std::byte* take(std::size_t bytes);
  void give(std::byte* block, std::size_t bytes);
  // Gives the blocks that wait back to the source, but for those in a slab or larger block of which
  // another part is live.
  void release();
  MemoryStats stats();
  // Sets the peak to what is live now.
  void reset_peak();

  // What may wait beside half of the peak.
  static constexpr std::int64_t kSpare = std::int64_t{16} << 20;
  // The peak of late is that of so many requests, twice.
  static constexpr std::int64_t kWindow = 8192;

 private:
  struct Waiting {
    std::vector<std::byte*> blocks;
    std::int64_t last_used = 0;  // which request took one; of large blocks alone
  };
  using Small = std::array<Waiting, 7>;  // 64 B to 4 KiB

  std::byte* take_large(std::size_t size);
  std::byte* take_missing(std::size_t size);
  std::byte* carve_slab(std::size_t size);
  std::byte* cut_waiting(std::size_t size);
  void wait_in_pieces(std::byte* begin, std::size_t bytes);
  void join_pieces();
  bool may_sweep() const;

  std::byte* from_source(std::size_t size);
  void make_room(std::size_t size);
  // Gives back what it can until no more than this is held.
  void shrink_to(std::int64_t bytes);
  void give_back_blocks(Waiting& waiting, std::size_t size, std::int64_t bytes);
  void give_back_slabs(Waiting& waiting, std::size_t size);
  void give_back(std::byte* block, std::size_t size);

  std::int64_t held() const { return stats_.live_bytes + stats_.pooled_bytes; }
  std::int64_t most_held(std::int64_t peak) const;
  void end_window();
  [[noreturn]] void fail(std::size_t size) const;

  MemorySource& source_;
  std::mutex mutex_;
  Small small_;
  // By size: classes, and rests of blocks that were cut.
  std::map<std::size_t, Waiting> large_;
  MemoryStats stats_;  // its peak is that of this window
  std::int64_t window_end_ = kWindow;
  std::int64_t window_before_ = 0;  // the peak of the window before this one
  std::int64_t peak_before_ = 0;    // since the last reset
  // What came from the source: large blocks, and slabs of small ones.
  std::map<std::byte*, std::size_t> blocks_;
  std::map<std::byte*, std::size_t> slabs_;
  std::array<std::size_t, std::tuple_size_v<Small>> slab_bytes_ = {};  // of each class
  std::int64_t cut_blocks_ = 0;
  std::int64_t swept_at_ = 0;  // how many requests there had been
};

}  // namespace lockstep
