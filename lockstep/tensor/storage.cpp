// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/storage.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/tensor/backend.h"

namespace lockstep {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

std::atomic<bool>& blocks_are_whole() {
  static std::atomic<bool> whole = kSanitized;
  return whole;
}

class SystemMemory final : public MemorySource {
 public:
  std::byte* take(std::size_t size) override {
    if (!is_mapped(size)) return static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    void* pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
  }
  void give(std::byte* block, std::size_t size) override {
    if (is_mapped(size))
      ::munmap(block, size);
    else
      std::free(block);
  }
  // The system promises more than a control group keeps: what cannot fit is not asked for.
  std::size_t largest() const override { return std::min(group_limit_, address_limit()); }
  bool may_cut() const override { return !whole_; }
  std::string limits() const override { return memory_limits_text(); }

 private:
  // Pages of their own go back to the system at once; a heap keeps what lies below a live block.
  bool is_mapped(std::size_t size) const { return !whole_ && size >= (std::size_t{1} << 20); }

  static std::size_t group_limit() {
    const std::int64_t limit = cgroup_limits().memory;
    return limit > 0 ? static_cast<std::size_t>(limit) : std::numeric_limits<std::size_t>::max();
  }
  static std::size_t address_limit() {
    rlimit space{};
    const bool is_limited = ::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
    return is_limited ? space.rlim_cur : std::numeric_limits<std::size_t>::max();
  }

  const std::size_t group_limit_ = group_limit();
  const bool whole_ = blocks_are_whole();
};

struct SystemPool {
  SystemMemory system;
  MemoryPool pool{system};
};

// Not inlined: every allocation and every release asks for the first pool.
[[gnu::noinline]] SystemPool* make_first_pool() { return new SystemPool; }

// The memory of a process is shared by all of it, so its pools are too. They outlive every tensor.
[[gnu::noinline]] MemoryPool& other_pool(std::int32_t index) {
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<std::int32_t, SystemPool>;
  const std::lock_guard lock(*mutex);
  return (*pools)[index].pool;
}

MemoryPool& host_pool(std::int32_t index) {
  static SystemPool* const first = make_first_pool();
  return index == 0 ? first->pool : other_pool(index);
}

MemoryPool& pool(const Device& device) {
  return device.is_host() ? host_pool(device.index) : device.backend->memory();
}

// A block that keeps its backend.
std::shared_ptr<void> device_block(std::size_t bytes, const Device& device) {
  std::byte* address = device.backend->memory().take(bytes);
  return {address, [bytes, backend = device.backend->shared_from_this()](void* block) {
            backend->memory().give(static_cast<std::byte*>(block), bytes);
          }};
}

// Above this a request is a mistake (a negative size, an overflow), not a need.
constexpr std::size_t kLargestBlock = std::size_t{1} << 46;

}  // namespace

MemoryStats memory_stats(Device device) { return pool(device).stats(); }
void reset_peak_memory(Device device) { pool(device).reset_peak(); }

void release_unused_memory(Device device) {
  pool(device).release();
  if (device.is_host()) ::malloc_trim(0);
}

void keep_blocks_whole() { blocks_are_whole() = true; }

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Device device) {
  if (bytes > kLargestBlock) throw OutOfMemory("memory: cannot allocate {} bytes", bytes);
  if (!device.is_host()) {
    std::shared_ptr<void> block = device_block(bytes, device);
    return borrow(block.get(), bytes, device, block);
  }
  std::byte* data = host_pool(device.index).take(bytes);
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
  if (pooled_) host_pool(device_.index).give(data_, bytes_);
}

}  // namespace lockstep
