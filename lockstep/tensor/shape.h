// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

inline constexpr int kMaxRank = 8;

// Up to kMaxRank integers without an allocation: a shape, or strides counted in elements.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values);
  // Throws InvalidArgument above kMaxRank.
  explicit Dims(std::span<const std::int64_t> values);
  Dims(const std::vector<std::int64_t>& values) : Dims(std::span(values)) {}
  static Dims filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + rank_; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + rank_; }
  std::span<const std::int64_t> span() const { return {begin(), end()}; }
  std::vector<std::int64_t> vector() const { return {begin(), end()}; }

  void push_back(std::int64_t value);
  void insert(int at, std::int64_t value);
  void erase(int at);
  // Product of all entries; 1 for a scalar.
  std::int64_t numel() const;
  bool operator==(const Dims& other) const;
  // "[2, 3]"
  std::string str() const;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  std::int32_t rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;

// Row-major strides of a dense array.
Strides contiguous_strides(const Shape& shape);
bool is_contiguous(const Shape& shape, const Strides& strides);

// NumPy's rule. Throws InvalidArgument that begins with `op`.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);
// Strides that read an array of `shape` as `target`: 0 along broadcast axes.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);
// Maps -rank..rank-1 to 0..rank-1. Throws InvalidArgument that begins with `op`.
int normalize_axis(const char* op, std::int64_t axis, int rank);
// The same for a list; sorted, no axis twice; an empty list means every axis.
std::vector<int> normalize_axes(const char* op, std::span<const std::int64_t> axes, int rank);

}  // namespace lockstep
