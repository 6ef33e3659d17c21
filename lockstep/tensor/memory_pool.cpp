// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/tensor/alignment.h"

namespace lockstep {
namespace {

constexpr std::size_t kSmall = 4096;
constexpr std::size_t kSlab = std::size_t{64} << 10;
// A block is cut for a request of at least this part of it: a small tensor should not keep a large
// block.
constexpr std::size_t kLargestCut = 8;

std::int64_t signed_size(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

// A power of two, cut into quarters above 4 KiB.
std::size_t round_to_class(std::size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const std::size_t power = std::bit_ceil(bytes);
  if (power <= kSmall) return power;
  const std::size_t quarter = power / 8;
  return (bytes + quarter - 1) / quarter * quarter;
}

// The largest class that fits; what is no larger than a small block stays as it is.
std::size_t class_within(std::size_t bytes) {
  if (bytes <= kSmall) return bytes;
  const std::size_t quarter = std::bit_floor(bytes) / 4;
  return bytes / quarter * quarter;
}

std::size_t index_of(std::size_t small_class) {
  return static_cast<std::size_t>(std::countr_zero(small_class)) - 6;
}

std::byte* pop(std::vector<std::byte*>& blocks) {
  std::byte* block = blocks.back();
  blocks.pop_back();
  return block;
}

}  // namespace

std::byte* MemoryPool::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = round_to_class(bytes);
  std::byte* block = nullptr;
  if (size > kSmall) {
    block = take_large(size);
  } else if (auto& waiting = small_[index_of(size)].blocks; !waiting.empty()) {
    block = pop(waiting);
  } else {
    block = carve_slab(size);
  }
  stats_.pooled_bytes -= signed_size(size);
  stats_.live_bytes += signed_size(size);
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  if (++stats_.allocations >= window_end_) end_window();
  return block;
}

void MemoryPool::give(std::byte* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = round_to_class(bytes);
  auto& waiting = size > kSmall ? large_[size] : small_[index_of(size)];
  waiting.blocks.push_back(block);
  stats_.live_bytes -= signed_size(size);
  stats_.pooled_bytes += signed_size(size);
}

void MemoryPool::release() {
  const std::lock_guard lock(mutex_);
  shrink_to(0);
}

MemoryStats MemoryPool::stats() {
  const std::lock_guard lock(mutex_);
  MemoryStats stats = stats_;
  stats.peak_bytes = std::max(stats.peak_bytes, peak_before_);
  return stats;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  window_before_ = std::max(window_before_, stats_.peak_bytes);
  peak_before_ = 0;
  stats_.peak_bytes = stats_.live_bytes;
}

std::byte* MemoryPool::take_large(std::size_t size) {
  Waiting& waiting = large_[size];
  waiting.last_used = stats_.allocations;
  return waiting.blocks.empty() ? take_missing(size) : pop(waiting.blocks);
}

std::byte* MemoryPool::take_missing(std::size_t size) {
  if (source_.may_cut() && stats_.pooled_bytes >= signed_size(size)) {
    if (std::byte* block = cut_waiting(size)) return block;
    if (cut_blocks_ > 0 && may_sweep()) {
      join_pieces();
      if (std::byte* block = cut_waiting(size)) return block;
    }
  }
  std::byte* block = from_source(size);
  blocks_.emplace(block, size);
  return block;
}

// A slab has as many blocks as its class had before, so that few blocks take little room.
std::byte* MemoryPool::carve_slab(std::size_t size) {
  std::size_t& of_class = slab_bytes_[index_of(size)];
  const std::size_t bytes = source_.may_cut() ? std::clamp(of_class, size, kSlab) : size;
  std::byte* slab = from_source(bytes);
  slabs_.emplace(slab, bytes);
  of_class += bytes;
  auto& waiting = small_[index_of(size)].blocks;
  for (std::size_t at = bytes - size; at > 0; at -= size) waiting.push_back(slab + at);
  return slab;
}

// The smallest block that is large enough.
std::byte* MemoryPool::cut_waiting(std::size_t size) {
  const auto end = large_.upper_bound(size * kLargestCut);
  auto found = large_.lower_bound(size);
  while (found != end && found->second.blocks.empty()) ++found;
  if (found == end) return nullptr;
  std::byte* block = pop(found->second.blocks);
  if (found->first > size) {
    if (const auto whole = blocks_.find(block);
        whole != blocks_.end() && whole->second == found->first)
      ++cut_blocks_;
    wait_in_pieces(block + size, found->first - size);
  }
  return block;
}

void MemoryPool::wait_in_pieces(std::byte* begin, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t size = class_within(bytes);
    large_[size].blocks.push_back(begin);
    begin += size;
    bytes -= size;
  }
}

// Joining and giving back look at everything that waits. So many requests lie between two times
// that a request's share is small, also where nothing comes of it.
bool MemoryPool::may_sweep() const {
  std::size_t count = 0;
  for (const auto& [size, waiting] : large_) count += waiting.blocks.size();
  for (const Waiting& waiting : small_) count += waiting.blocks.size();
  return stats_.allocations - swept_at_ >= signed_size(count) / 8;
}

// Neighbours in one block of the source become one piece; what is a whole block again is one.
void MemoryPool::join_pieces() {
  swept_at_ = stats_.allocations;
  std::vector<std::pair<std::byte*, std::size_t>> pieces;
  for (auto& [size, waiting] : large_)
    std::erase_if(waiting.blocks, [&, size = size](std::byte* block) {
      const auto whole = blocks_.find(block);
      if (whole != blocks_.end() && whole->second == size) return false;
      pieces.emplace_back(block, size);
      return true;
    });
  std::ranges::sort(pieces);
  for (std::size_t i = 0; i < pieces.size();) {
    const auto [begin, first] = pieces[i];
    const auto [base, whole] = *std::prev(blocks_.upper_bound(begin));
    std::size_t bytes = first;
    for (++i; i < pieces.size() && pieces[i].first == begin + bytes && begin + bytes < base + whole;
         ++i)
      bytes += pieces[i].second;
    if (bytes < whole) {
      wait_in_pieces(begin, bytes);
    } else {
      large_[bytes].blocks.push_back(begin);
      --cut_blocks_;
    }
  }
}

// The block counts as waiting.
std::byte* MemoryPool::from_source(std::size_t size) {
  if (size > source_.largest()) fail(size);
  make_room(size);
  std::byte* block = source_.take(size);
  if (block == nullptr && stats_.pooled_bytes > 0) {
    shrink_to(0);
    block = source_.take(size);
  }
  if (block == nullptr) fail(size);
  ++stats_.system_allocations;
  stats_.pooled_bytes += signed_size(size);
  return block;
}

void MemoryPool::make_room(std::size_t size) {
  const std::int64_t bytes = signed_size(size);
  const std::int64_t most = most_held(stats_.live_bytes + bytes);
  if (held() + bytes > most && may_sweep()) shrink_to(most - bytes);
}

std::int64_t MemoryPool::most_held(std::int64_t peak) const {
  peak = std::max({peak, stats_.peak_bytes, window_before_});
  return peak + peak / 2 + kSpare;
}

void MemoryPool::end_window() {
  window_end_ = stats_.allocations + kWindow;
  peak_before_ = std::max(peak_before_, stats_.peak_bytes);
  window_before_ = std::exchange(stats_.peak_bytes, stats_.live_bytes);
  if (const std::int64_t most = most_held(0); held() > most) shrink_to(most);
}

void MemoryPool::shrink_to(std::int64_t bytes) {
  swept_at_ = stats_.allocations;
  if (cut_blocks_ > 0) join_pieces();
  std::vector<std::pair<const std::size_t, Waiting>*> lists;
  for (auto& list : large_) lists.push_back(&list);
  std::ranges::sort(lists, {}, [](const auto* list) { return list->second.last_used; });
  for (auto* list : lists) give_back_blocks(list->second, list->first, bytes);
  for (std::size_t i = 0; i < small_.size() && held() > bytes; ++i)
    give_back_slabs(small_[i], kAlignment << i);
}

void MemoryPool::give_back_blocks(Waiting& waiting, std::size_t size, std::int64_t bytes) {
  std::erase_if(waiting.blocks, [&](std::byte* block) {
    if (held() <= bytes) return false;
    const auto whole = blocks_.find(block);
    if (whole == blocks_.end() || whole->second != size) return false;
    blocks_.erase(whole);
    give_back(block, size);
    return true;
  });
}

// Those of which every block waits.
void MemoryPool::give_back_slabs(Waiting& waiting, std::size_t size) {
  std::ranges::sort(waiting.blocks);
  std::vector<std::byte*> kept;
  for (auto block = waiting.blocks.begin(); block != waiting.blocks.end();) {
    const auto slab = std::prev(slabs_.upper_bound(*block));
    const auto end = std::lower_bound(block, waiting.blocks.end(), slab->first + slab->second);
    if (static_cast<std::size_t>(end - block) * size == slab->second) {
      slab_bytes_[index_of(size)] -= slab->second;
      give_back(slab->first, slab->second);
      slabs_.erase(slab);
    } else {
      kept.insert(kept.end(), block, end);
    }
    block = end;
  }
  waiting.blocks = std::move(kept);
}

void MemoryPool::give_back(std::byte* block, std::size_t size) {
  stats_.pooled_bytes -= signed_size(size);
  source_.give(block, size);
}

void MemoryPool::fail(std::size_t size) const {
  const std::string limits = source_.limits();
  throw OutOfMemory("memory: cannot allocate {} bytes ({} bytes are in use{}{})", size,
                    stats_.live_bytes, limits.empty() ? "" : "; ", limits);
}

}  // namespace lockstep
