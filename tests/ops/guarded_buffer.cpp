// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/guarded_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace lockstep::testing {
namespace {

constexpr std::size_t kAlignment = 64, kBefore = 4096;
constexpr std::byte kAround{0x5c}, kUnwritten{0xff};

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

bool all_around(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte b) { return b == kAround; });
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes)
    : bytes_(bytes), mapped_(round_up(bytes + kBefore + kAlignment, page()) + page()) {
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  start_ = static_cast<std::byte*>(memory);
  std::byte* end = start_ + mapped_ - page();
  mprotect(end, page(), PROT_NONE);
  data_ = end - round_up(bytes, kAlignment);
  std::fill(start_, end, kAround);
  std::fill_n(data_, bytes, kUnwritten);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : bytes_(other.bytes_),
      mapped_(other.mapped_),
      start_(std::exchange(other.start_, nullptr)),
      data_(other.data_) {}

GuardedBuffer::~GuardedBuffer() {
  if (start_ != nullptr) munmap(start_, mapped_);
}

bool GuardedBuffer::intact() const {
  return all_around(start_, data_) && all_around(data_ + bytes_, start_ + mapped_ - page());
}

}  // namespace lockstep::testing
