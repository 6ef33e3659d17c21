// SPDX-License-Identifier: Apache-2.0
//
// Replaces the aligned allocations of this program: the pool's blocks and oneDNN's scratchpads. A
// block is filled with NaN of every floating dtype, so that what is read before it is written
// shows, and ends at a page that must not be touched, so that what is written behind it is a
// SIGSEGV.
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

// The C library's own, under the names that it keeps for replacements.
extern "C" void __libc_free(void* block);
extern "C" void* __libc_memalign(std::size_t alignment, std::size_t bytes);

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = std::size_t{1} << 22;  // 16 GiB of addresses
constexpr std::size_t kLargest = 1 << 14;             // pages of one block: 64 MiB
constexpr int kPoison = 0xff;

// Runs of pages in one range of addresses, each with a guard behind it. A run that was freed waits
// for a request of the same length. It allocates nothing itself.
class GuardedPages {
 public:
  std::byte* take(std::size_t pages) {
    const std::lock_guard lock(mutex_);
    if (base_ == nullptr && !reserve()) return nullptr;
    std::uint32_t& waiting = free_[pages];
    if (waiting != 0) {
      const std::uint32_t page = waiting;
      waiting = next_[page];
      return base_ + page * kPage;
    }
    if (used_ + pages + 1 > kPages) return nullptr;
    std::byte* run = base_ + used_ * kPage;
    if (mprotect(run, pages * kPage, PROT_READ | PROT_WRITE) != 0) return nullptr;
    length_[used_] = static_cast<std::uint32_t>(pages);
    used_ += pages + 1;
    return run;
  }

  // False when the block is not from here.
  bool give(void* block) {
    const auto* at = static_cast<std::byte*>(block);
    if (base_ == nullptr || at < base_ || at >= base_ + kPages * kPage) return false;
    const std::lock_guard lock(mutex_);
    const auto page = static_cast<std::uint32_t>(static_cast<std::size_t>(at - base_) / kPage);
    std::uint32_t& waiting = free_[length_[page]];
    next_[page] = waiting;
    waiting = page;
    return true;
  }

 private:
  bool reserve() {
    void* range = mmap(nullptr, kPages * kPage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    base_ = static_cast<std::byte*>(range);
    return true;
  }

  std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t used_ = 1;  // page 0 stands for none
  std::array<std::uint32_t, kPages> length_ = {};
  std::array<std::uint32_t, kPages> next_ = {};
  std::array<std::uint32_t, kLargest + 1> free_ = {};
};

// Allocation begins before main does.
constinit GuardedPages guarded;

void* allocate(std::size_t alignment, std::size_t bytes) {
  const std::size_t pages = (bytes + kPage - 1) / kPage;
  std::byte* run =
      pages == 0 || pages > kLargest || alignment > kPage ? nullptr : guarded.take(pages);
  if (run == nullptr) return __libc_memalign(alignment, bytes);
  std::memset(run, kPoison, pages * kPage);
  return run + (pages * kPage - bytes) / alignment * alignment;
}

}  // namespace

extern "C" {

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return allocate(alignment, bytes); }

int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = allocate(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

void free(void* block) {
  if (block != nullptr && !guarded.give(block)) __libc_free(block);
}
}
