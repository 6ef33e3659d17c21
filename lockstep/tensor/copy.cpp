// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "lockstep/tensor/convert.h"

namespace lockstep {
namespace {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Between a half and float32.
template <class S, class T>
inline constexpr bool is_half_and_float = (is_half<S> && std::is_same_v<T, float>) ||
                                          (is_half<T> && std::is_same_v<S, float>);

template <class S, class T>
void copy_row(const S* source, std::int64_t source_step, T* target, std::int64_t target_step,
              std::int64_t count) {
  if (source_step == 1 && target_step == 1) {
    if constexpr (std::is_same_v<S, T>) {
      std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
    } else if constexpr (is_half_and_float<S, T>) {
      convert_run(source, target, static_cast<std::size_t>(count));
    } else {
      for (std::int64_t i = 0; i < count; ++i) target[i] = convert_element<T>(source[i]);
    }
    return;
  }
  if (source_step == 0 && target_step == 1) {
    std::fill_n(target, count, convert_element<T>(*source));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    target[i * target_step] = convert_element<T>(source[i * source_step]);
}

template <class S, class T>
void copy_nd(const Shape& shape, const S* source, const Strides& source_strides, T* target,
             const Strides& target_strides, int axis) {
  if (axis == shape.rank() - 1) {
    copy_row(source, source_strides[axis], target, target_strides[axis], shape[axis]);
    return;
  }
  for (std::int64_t i = 0; i < shape[axis]; ++i)
    copy_nd(shape, source + i * source_strides[axis], source_strides,
            target + i * target_strides[axis], target_strides, axis + 1);
}

using FourWords = std::uint32_t __attribute__((vector_size(16)));

FourWords load(const std::uint32_t* from) {
  FourWords words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

void store(const FourWords& words, std::uint32_t* to) { std::memcpy(to, &words, sizeof(words)); }

// target[i][j] = source[j][i], 4 by 4.
void transpose_4x4(const std::uint32_t* source, std::int64_t source_step, std::uint32_t* target,
                   std::int64_t target_step) {
  const FourWords a = load(source);
  const FourWords b = load(source + source_step);
  const FourWords c = load(source + 2 * source_step);
  const FourWords d = load(source + 3 * source_step);
  const FourWords ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const FourWords ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourWords cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const FourWords cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), target);
  store(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), target + target_step);
  store(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), target + 2 * target_step);
  store(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), target + 3 * target_step);
}

// A plane whose source is dense down the rows and whose target is dense along them.
template <class U>
struct Plane {
  const U* source;
  std::int64_t source_step;  // from column to column
  U* target;
  std::int64_t target_step;  // from row to row

  void tile(std::int64_t row, std::int64_t row_end, std::int64_t column,
            std::int64_t column_end) const {
    std::int64_t i = row;
    if constexpr (sizeof(U) == 4)
      for (; i + 4 <= row_end; i += 4) {
        std::int64_t j = column;
        for (; j + 4 <= column_end; j += 4)
          transpose_4x4(source + j * source_step + i, source_step, target + i * target_step + j,
                        target_step);
        elements(i, i + 4, j, column_end);
      }
    elements(i, row_end, column, column_end);
  }

  void elements(std::int64_t row, std::int64_t row_end, std::int64_t column,
                std::int64_t column_end) const {
    for (std::int64_t i = row; i < row_end; ++i)
      for (std::int64_t j = column; j < column_end; ++j)
        target[i * target_step + j] = source[j * source_step + i];
  }
};

// Tile by tile, so that the cache lines of both sides are used whole.
template <class U>
void transpose_plane(const Plane<U>& plane, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTileRows = 64 / static_cast<std::int64_t>(sizeof(U));
  constexpr std::int64_t kTileColumns = 64;
  for (std::int64_t j = 0; j < columns; j += kTileColumns)
    for (std::int64_t i = 0; i < rows; i += kTileRows)
      plane.tile(i, std::min(i + kTileRows, rows), j, std::min(j + kTileColumns, columns));
}

// The axis that is dense in the source, where it is not the one that is dense in the target.
std::optional<int> transposed_axis(const Shape& shape, const Strides& from, const Strides& to) {
  const int last = shape.rank() - 1;
  if (to[last] != 1 || from[last] == 1 || from[last] == 0) return std::nullopt;
  for (int axis = 0; axis < last; ++axis)
    if (from[axis] == 1) return axis;
  return std::nullopt;
}

template <class U>
void copy_transposed(const Shape& shape, const U* source, const Strides& from, U* target,
                     const Strides& to, int dense, int axis) {
  const int last = shape.rank() - 1;
  if (axis == last)
    return transpose_plane<U>({source, from[last], target, to[dense]}, shape[dense], shape[last]);
  if (axis == dense) return copy_transposed(shape, source, from, target, to, dense, axis + 1);
  for (std::int64_t i = 0; i < shape[axis]; ++i)
    copy_transposed(shape, source + i * from[axis], from, target + i * to[axis], to, dense,
                    axis + 1);
}

bool can_merge(const Shape& shape, std::span<Strides*> operands, int axis) {
  return std::all_of(operands.begin(), operands.end(), [&](const Strides* strides) {
    return (*strides)[axis] == (*strides)[axis + 1] * shape[axis + 1];
  });
}

void drop_axis(Shape& shape, std::span<Strides*> operands, int axis) {
  shape.erase(axis);
  for (Strides* strides : operands) strides->erase(axis);
}

// Elements of one dtype only move, so an unsigned integer of their size stands for them.
template <class F>
void visit_bits(std::size_t size, F&& f) {
  switch (size) {
    case 1: return f(TypeTag<std::uint8_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    default: return f(TypeTag<std::uint64_t>{});
  }
}

void move_elements(const Shape& shape, const StridedPointer& source, const StridedPointer& target) {
  visit_bits(item_size(source.dtype), [&](auto tag) {
    using U = typename decltype(tag)::type;
    const auto* from = reinterpret_cast<const U*>(source.data);
    auto* to = reinterpret_cast<U*>(target.data);
    if (const auto dense = transposed_axis(shape, source.strides, target.strides))
      copy_transposed(shape, from, source.strides, to, target.strides, *dense, 0);
    else
      copy_nd(shape, from, source.strides, to, target.strides, 0);
  });
}

void convert_elements(const Shape& shape, const StridedPointer& source,
                      const StridedPointer& target) {
  visit_dtype(source.dtype, [&](auto s) {
    visit_dtype(target.dtype, [&](auto t) {
      using S = typename decltype(s)::type;
      using T = typename decltype(t)::type;
      if constexpr (!std::is_same_v<S, T>)
        copy_nd(shape, reinterpret_cast<const S*>(source.data), source.strides,
                reinterpret_cast<T*>(target.data), target.strides, 0);
    });
  });
}

}  // namespace

void merge_axes(Shape& shape, std::span<Strides*> operands) {
  for (int axis = shape.rank() - 1; axis >= 0; --axis)
    if (shape[axis] == 1 && shape.rank() > 1) drop_axis(shape, operands, axis);
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    if (!can_merge(shape, operands, axis)) continue;
    shape[axis + 1] *= shape[axis];
    drop_axis(shape, operands, axis);
  }
  if (shape.rank() > 0) return;
  shape.push_back(1);
  for (Strides* strides : operands) strides->push_back(1);
}

void copy_strided(const Shape& shape, const StridedPointer& source, const StridedPointer& target) {
  if (shape.numel() == 0) return;
  Shape merged = shape;
  StridedPointer from = source;
  StridedPointer to = target;
  std::array<Strides*, 2> operands{&to.strides, &from.strides};
  merge_axes(merged, operands);
  if (from.dtype == to.dtype)
    move_elements(merged, from, to);
  else
    convert_elements(merged, from, to);
}

}  // namespace lockstep
