// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/copy.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {
namespace {

template <class S, class T>
void copy_row(const S* source, std::int64_t source_step, T* target, std::int64_t target_step,
              std::int64_t count) {
  if (source_step == 1 && target_step == 1) {
    if constexpr (std::is_same_v<S, T>) {
      std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<T>(source[i]);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    target[i * target_step] = static_cast<T>(source[i * source_step]);
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

bool can_merge(const Shape& shape, std::span<Strides*> operands, int axis) {
  return std::all_of(operands.begin(), operands.end(), [&](const Strides* strides) {
    return (*strides)[axis] == (*strides)[axis + 1] * shape[axis + 1];
  });
}

void drop_axis(Shape& shape, std::span<Strides*> operands, int axis) {
  shape.erase(axis);
  for (Strides* strides : operands) strides->erase(axis);
}

// Conversions between integers of every width would be 81 loops; the same width needs no
// conversion, so those go through unsigned integers of that size.
template <class F>
void visit_copy_pair(DType source, DType target, F&& f) {
  if (source == target) {
    switch (item_size(source)) {
      case 1: return f(TypeTag<std::uint8_t>{}, TypeTag<std::uint8_t>{});
      case 2: return f(TypeTag<std::uint16_t>{}, TypeTag<std::uint16_t>{});
      case 4: return f(TypeTag<std::uint32_t>{}, TypeTag<std::uint32_t>{});
      default: return f(TypeTag<std::uint64_t>{}, TypeTag<std::uint64_t>{});
    }
  }
  visit_dtype(source, [&](auto s) { visit_dtype(target, [&](auto t) { f(s, t); }); });
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
  Strides from = source.strides;
  Strides to = target.strides;
  std::array<Strides*, 2> operands{&to, &from};
  merge_axes(merged, operands);
  visit_copy_pair(source.dtype, target.dtype, [&](auto s, auto t) {
    using S = typename decltype(s)::type;
    using T = typename decltype(t)::type;
    copy_nd(merged, reinterpret_cast<const S*>(source.data), from,
            reinterpret_cast<T*>(target.data), to, 0);
  });
}

}  // namespace lockstep
