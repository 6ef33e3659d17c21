// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/storage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"

namespace lockstep {
namespace {

// Blocks are rounded up to a size class (a power of two, cut into quarters above 4 KiB) and freed
// blocks wait in their class's list.
std::size_t round_to_class(std::size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const std::size_t power = std::bit_ceil(bytes);
  if (power <= 4096) return power;
  const std::size_t quarter = power / 8;
  return (bytes + quarter - 1) / quarter * quarter;
}

class Pool {
 public:
  std::byte* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = round_to_class(bytes);
    std::vector<std::byte*>& waiting = list(size);
    std::byte* block = nullptr;
    if (!waiting.empty()) {
      block = waiting.back();
      waiting.pop_back();
      stats_.pooled_bytes -= static_cast<std::int64_t>(size);
    } else {
      block = from_system(size);
    }
    ++stats_.allocations;
    stats_.live_bytes += static_cast<std::int64_t>(size);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    return block;
  }

  void give(std::byte* block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = round_to_class(bytes);
    list(size).push_back(block);
    stats_.live_bytes -= static_cast<std::int64_t>(size);
    stats_.pooled_bytes += static_cast<std::int64_t>(size);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    for (auto& waiting : small_) free_all(waiting);
    for (auto& [size, waiting] : large_) free_all(waiting);
    stats_.pooled_bytes = 0;
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    const std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.live_bytes;
  }

 private:
  std::vector<std::byte*>& list(std::size_t size) {
    if (size <= 4096) return small_[static_cast<std::size_t>(std::countr_zero(size)) - 6];
    return large_[size];
  }

  std::byte* from_system(std::size_t size) {
    ++stats_.system_allocations;
    // The system promises more than a control group keeps: what cannot fit is not asked for.
    void* block = size > limit_ ? nullptr : std::aligned_alloc(kAlignment, size);
    if (block == nullptr && size <= limit_ && stats_.pooled_bytes > 0) {
      for (auto& [bytes, waiting] : large_) free_all(waiting);
      block = std::aligned_alloc(kAlignment, size);
    }
    if (block == nullptr) fail(size);
    return static_cast<std::byte*>(block);
  }

  [[noreturn]] void fail(std::size_t size) const {
    const std::string limits = memory_limits_text();
    throw OutOfMemory("memory: cannot allocate {} bytes ({} bytes are in use{}{})", size,
                      stats_.live_bytes, limits.empty() ? "" : "; ", limits);
  }

  static std::size_t memory_limit() {
    const std::int64_t limit = cgroup_limits().memory;
    return limit > 0 ? static_cast<std::size_t>(limit) : std::numeric_limits<std::size_t>::max();
  }

  static void free_all(std::vector<std::byte*>& blocks) {
    for (std::byte* block : blocks) std::free(block);
    blocks.clear();
  }

  const std::size_t limit_ = memory_limit();
  std::mutex mutex_;
  std::array<std::vector<std::byte*>, 7> small_;  // 64 B to 4 KiB
  std::map<std::size_t, std::vector<std::byte*>> large_;
  MemoryStats stats_;
};

// The memory of a process is shared by all of it, so its pools are too. They outlive every tensor.
Pool& other_pool(Device device) {
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<std::int32_t, Pool>;
  const std::lock_guard lock(*mutex);
  return (*pools)[device.index];
}

Pool& pool(Device device) {
  static auto* first = new Pool;
  return device.index == 0 ? *first : other_pool(device);
}

// Above this a request is a mistake (a negative size, an overflow), not a need.
constexpr std::size_t kLargestBlock = std::size_t{1} << 46;

}  // namespace

Device cpu(int index) {
  if (index < 0) throw InvalidArgument("cpu: device index {} is negative", index);
  return {DeviceKind::cpu, index};
}

MemoryStats memory_stats(Device device) { return pool(device).stats(); }
void reset_peak_memory(Device device) { pool(device).reset_peak(); }
void release_unused_memory(Device device) { pool(device).release(); }

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Device device) {
  if (bytes > kLargestBlock) throw OutOfMemory("memory: cannot allocate {} bytes", bytes);
  std::byte* data = pool(device).take(bytes);
  return std::make_shared<Storage>(data, bytes, device, nullptr);
}

std::shared_ptr<Storage> Storage::borrow(void* data, std::size_t bytes, Device device,
                                         std::shared_ptr<void> owner) {
  check(owner != nullptr, "borrowed storage needs an owner");
  return std::make_shared<Storage>(static_cast<std::byte*>(data), bytes, device, std::move(owner));
}

Storage::Storage(std::byte* data, std::size_t bytes, Device device, std::shared_ptr<void> owner)
    : data_(data),
      bytes_(bytes),
      device_(device),
      pooled_(owner == nullptr),
      owner_(std::move(owner)) {}

Storage::~Storage() {
  if (pooled_) pool(device_).give(data_, bytes_);
}

}  // namespace lockstep
