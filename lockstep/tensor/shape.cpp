// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/shape.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {

Dims::Dims(std::initializer_list<std::int64_t> values)
    : Dims(std::span(values.begin(), values.size())) {}

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > kMaxRank)
    throw InvalidArgument("shape: {} dimensions, at most {} are supported", values.size(),
                          kMaxRank);
  std::copy(values.begin(), values.end(), values_.begin());
  rank_ = static_cast<std::int32_t>(values.size());
}

Dims Dims::filled(int rank, std::int64_t value) {
  check(rank >= 0 && rank <= kMaxRank, "rank out of range");
  Dims dims;
  dims.rank_ = rank;
  std::fill(dims.begin(), dims.end(), value);
  return dims;
}

void Dims::push_back(std::int64_t value) { insert(rank_, value); }

void Dims::insert(int at, std::int64_t value) {
  if (rank_ == kMaxRank)
    throw InvalidArgument("shape: {} dimensions, at most {} are supported", rank_ + 1, kMaxRank);
  check(at >= 0 && at <= rank_, "position out of range");
  std::move_backward(begin() + at, end(), end() + 1);
  values_[static_cast<std::size_t>(at)] = value;
  ++rank_;
}

void Dims::erase(int at) {
  check(at >= 0 && at < rank_, "position out of range");
  std::move(begin() + at + 1, end(), begin() + at);
  --rank_;
}

std::int64_t Dims::numel() const {
  std::int64_t product = 1;
  for (std::int64_t d : *this) product *= d;
  return product;
}

bool Dims::operator==(const Dims& other) const {
  if (rank_ != other.rank_) return false;
  for (int i = 0; i < rank_; ++i)
    if ((*this)[i] != other[i]) return false;
  return true;
}

std::string Dims::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string((*this)[i]);
  return text + "]";
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Strides::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<std::int64_t>(shape[i + 1], 1);
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const std::int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw InvalidArgument("{}: shapes {} and {} do not broadcast", op, a.str(), b.str());
    result[rank - i] = x == 1 ? y : x;
  }
  return result;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  check(shape.rank() <= target.rank(), "cannot broadcast to a lower rank");
  Strides result = Strides::filled(target.rank(), 0);
  const int lead = target.rank() - shape.rank();
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) result[lead + i] = strides[i];
  return result;
}

int normalize_axis(const char* op, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw InvalidArgument("{}: axis {} is out of range for {} dimensions", op, axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normalize_axes(const char* op, std::span<const std::int64_t> axes, int rank) {
  std::vector<int> result;
  if (axes.empty())
    for (int i = 0; i < rank; ++i) result.push_back(i);
  for (std::int64_t axis : axes) result.push_back(normalize_axis(op, axis, rank));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    throw InvalidArgument("{}: an axis is named twice", op);
  return result;
}

}  // namespace lockstep
