// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/memory_pool.h"

#include <algorithm>
#include <bit>

#include "lockstep/base/error.h"
#include "lockstep/tensor/alignment.h"

namespace lockstep {
namespace {

// A power of two, cut into quarters above 4 KiB.
std::size_t round_to_class(std::size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const std::size_t power = std::bit_ceil(bytes);
  if (power <= 4096) return power;
  const std::size_t quarter = power / 8;
  return (bytes + quarter - 1) / quarter * quarter;
}

}  // namespace

inline std::vector<std::byte*>& MemoryPool::list(std::size_t size) {
  if (size <= 4096) return small_[static_cast<std::size_t>(std::countr_zero(size)) - 6];
  return large_[size];
}

std::byte* MemoryPool::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = round_to_class(bytes);
  std::vector<std::byte*>& waiting = list(size);
  std::byte* block = nullptr;
  if (!waiting.empty()) {
    block = waiting.back();
    waiting.pop_back();
    stats_.pooled_bytes -= static_cast<std::int64_t>(size);
  } else {
    block = from_source(size);
  }
  ++stats_.allocations;
  stats_.live_bytes += static_cast<std::int64_t>(size);
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  return block;
}

void MemoryPool::give(std::byte* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t size = round_to_class(bytes);
  list(size).push_back(block);
  stats_.live_bytes -= static_cast<std::int64_t>(size);
  stats_.pooled_bytes += static_cast<std::int64_t>(size);
}

void MemoryPool::release() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < small_.size(); ++i) give_back(kAlignment << i, small_[i]);
  for (auto& [size, waiting] : large_) give_back(size, waiting);
}

MemoryStats MemoryPool::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

std::byte* MemoryPool::from_source(std::size_t size) {
  std::byte* block = source_.take(size);
  if (block == nullptr && stats_.pooled_bytes > 0) {
    for (auto& [bytes, waiting] : large_) give_back(bytes, waiting);
    block = source_.take(size);
  }
  if (block == nullptr) fail(size);
  ++stats_.system_allocations;
  return block;
}

void MemoryPool::give_back(std::size_t size, std::vector<std::byte*>& blocks) {
  stats_.pooled_bytes -= static_cast<std::int64_t>(size * blocks.size());
  for (std::byte* block : blocks) source_.give(block, size);
  blocks.clear();
}

void MemoryPool::fail(std::size_t size) const {
  const std::string limits = source_.limits();
  throw OutOfMemory("memory: cannot allocate {} bytes ({} bytes are in use{}{})", size,
                    stats_.live_bytes, limits.empty() ? "" : "; ", limits);
}

}  // namespace lockstep
