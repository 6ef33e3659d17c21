// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace lockstep {

// A list of known capacity that allocates only above `few` entries. Entries are built in place and
// never moved.
template <class T, std::size_t few>
class ShortList {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit ShortList(std::size_t capacity)
      : many_(capacity > few ? new Room[capacity] : nullptr), data_(many_ ? many_.get() : few_) {}
  ShortList(const ShortList&) = delete;
  ShortList& operator=(const ShortList&) = delete;

  template <class... A>
  T& emplace_back(A&&... args) {
    return *::new (static_cast<void*>(data_ + size_++)) T{std::forward<A>(args)...};
  }

  std::size_t size() const { return size_; }
  const T* data() const { return std::launder(reinterpret_cast<const T*>(data_)); }
  const T& operator[](std::size_t i) const { return data()[i]; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  struct alignas(T) Room {
    std::byte bytes[sizeof(T)];
  };
  std::size_t size_ = 0;
  std::unique_ptr<Room[]> many_;
  Room* data_;
  Room few_[few];
};

}  // namespace lockstep
