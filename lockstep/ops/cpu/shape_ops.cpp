// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/shape_ops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lockstep/ops/detail/pad_map.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/tensor/copy.h"

namespace lockstep::kernels {
namespace {

StridedPointer pointer(const TensorView& view) { return {view.data, view.strides, view.dtype}; }

std::byte* at(const TensorView& view, std::int64_t element) {
  return view.data + element * static_cast<std::int64_t>(item_size(view.dtype));
}

// Row-major order is what a reshape keeps, so the output is written with the input's shape.
void run_reshape(const KernelCall& call) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  copy_strided(in.shape, pointer(in), {out.data, contiguous_strides(in.shape), out.dtype});
}

void run_concat(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const int axis = normalize_axis("concat", call.attrs.as<ConcatAttrs>().axis, out.shape.rank());
  std::int64_t start = 0;
  for (const TensorView& in : call.inputs) {
    copy_strided(in.shape, pointer(in),
                 {at(out, start * out.strides[axis]), out.strides, out.dtype});
    start += in.shape[axis];
  }
}

void run_split(const KernelCall& call) {
  const TensorView& in = call.inputs[0];
  const int axis = normalize_axis("split", call.attrs.as<SplitAttrs>().axis, in.shape.rank());
  std::int64_t start = 0;
  for (const TensorView& out : call.outputs) {
    copy_strided(out.shape, {at(in, start * in.strides[axis]), in.strides, in.dtype}, pointer(out));
    start += out.shape[axis];
  }
}

void pad_constant(const TensorView& in, const TensorView& out, const PadAttrs& attrs) {
  visit_dtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(out.as<T>(), out.numel(), static_cast<T>(attrs.value));
  });
  std::int64_t offset = 0;
  for (int i = 0; i < in.shape.rank(); ++i)
    offset += attrs.widths[static_cast<std::size_t>(2 * i)] * out.strides[i];
  copy_strided(in.shape, pointer(in), {at(out, offset), out.strides, out.dtype});
}

// Calls visit(offset in the padded array, offset in the inner one) for every element of the padded
// array, row major.
template <class F>
void for_each_padded(const std::vector<std::vector<std::int64_t>>& maps, const Strides& padded,
                     const Strides& inner, int axis, std::int64_t p, std::int64_t q, F&& visit) {
  if (axis == padded.rank()) return visit(p, q);
  const auto& map = maps[static_cast<std::size_t>(axis)];
  if (axis == padded.rank() - 1) {  // the same without a call for each element
    for (std::size_t i = 0; i < map.size(); ++i)
      visit(p + static_cast<std::int64_t>(i) * padded[axis], q + map[i] * inner[axis]);
    return;
  }
  for (std::size_t i = 0; i < map.size(); ++i)
    for_each_padded(maps, padded, inner, axis + 1, p + static_cast<std::int64_t>(i) * padded[axis],
                    q + map[i] * inner[axis], visit);
}

void run_pad(const KernelCall& call) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const auto& attrs = call.attrs.as<PadAttrs>();
  if (attrs.mode == "constant") return pad_constant(in, out, attrs);
  const auto maps = detail::pad_maps(in.shape, attrs.widths, attrs.mode);
  visit_dtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_padded(
        maps, out.strides, in.strides, 0, 0, 0,
        [from = in.as<T>(), to = out.as<T>()](std::int64_t p, std::int64_t q) { to[p] = from[q]; });
  });
}

template <class T>
void run_pad_backward(const KernelCall& call) {
  const TensorView& grad = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const auto& attrs = call.attrs.as<PadBackwardAttrs>();
  const auto maps = detail::pad_maps(out.shape, attrs.widths, attrs.mode);
  std::fill_n(out.as<T>(), out.numel(), T{});
  for_each_padded(maps, grad.strides, out.strides, 0, 0, 0,
                  [from = grad.as<T>(), to = out.as<T>()](std::int64_t p, std::int64_t q) {
                    to[q] += from[p];
                  });
}

// One axis of a tile: its inner part once for each element, then copies of the whole.
void tile_axis(const TensorView& in, const TensorView& out, int axis, std::byte* source,
               std::byte* target) {
  const auto item = static_cast<std::int64_t>(item_size(in.dtype));
  const int lead = out.shape.rank() - in.shape.rank();
  const std::int64_t size = axis < lead ? 1 : in.shape[axis - lead];
  const std::int64_t source_step = axis < lead ? 0 : in.strides[axis - lead] * item;
  const std::int64_t target_step = out.strides[axis] * item;
  const bool last = axis == out.shape.rank() - 1;
  for (std::int64_t i = 0; i < size; ++i) {
    std::byte* from = source + i * source_step;
    std::byte* to = target + i * target_step;
    if (last)
      std::memcpy(to, from, static_cast<std::size_t>(item));
    else
      tile_axis(in, out, axis + 1, from, to);
  }
  const std::int64_t bytes = size * target_step;
  for (std::int64_t r = 1; r < out.shape[axis] / std::max<std::int64_t>(size, 1); ++r)
    std::memcpy(target + r * bytes, target, static_cast<std::size_t>(bytes));
}

void run_tile(const KernelCall& call) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  if (out.numel() == 0) return;
  if (out.shape.rank() == 0) return copy_strided(in.shape, pointer(in), pointer(out));
  tile_axis(in, out, 0, in.data, out.data);
}

void run_repeat(const KernelCall& call) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const auto& attrs = call.attrs.as<RepeatAttrs>();
  const int axis = normalize_axis("repeat", attrs.axis, in.shape.rank());
  std::int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= in.shape[i];
  const std::int64_t size = in.shape[axis];
  const std::int64_t inner = size == 0 || outer == 0 ? 0 : in.numel() / outer / size;
  const Shape shape{outer, size, attrs.repeats, inner};
  copy_strided(shape, {in.data, {size * inner, inner, 0, 1}, in.dtype},
               {out.data, contiguous_strides(shape), out.dtype});
}

constexpr KernelCandidate kReshape[] = {
    {.name = "copy", .dtypes = kAllTypes, .direct = run_reshape, .strided_inputs = true}};
constexpr KernelCandidate kConcat[] = {
    {.name = "copy runs", .dtypes = kAllTypes, .direct = run_concat, .strided_inputs = true}};
constexpr KernelCandidate kSplit[] = {
    {.name = "copy runs", .dtypes = kAllTypes, .direct = run_split, .strided_inputs = true}};
constexpr KernelCandidate kPad[] = {
    {.name = "pad", .dtypes = kAllTypes, .direct = run_pad, .strided_inputs = true}};
constexpr KernelCandidate kPadBackward[] = {
    {.name = "float32", .dtypes = {DType::float32}, .direct = run_pad_backward<float>},
    {.name = "float64", .dtypes = {DType::float64}, .direct = run_pad_backward<double>}};
constexpr KernelCandidate kTile[] = {
    {.name = "copy runs", .dtypes = kAllTypes, .direct = run_tile, .strided_inputs = true}};
constexpr KernelCandidate kRepeat[] = {
    {.name = "copy runs", .dtypes = kAllTypes, .direct = run_repeat}};

}  // namespace

std::span<const KernelCandidate> reshape() { return kReshape; }
std::span<const KernelCandidate> concat() { return kConcat; }
std::span<const KernelCandidate> split() { return kSplit; }
std::span<const KernelCandidate> pad() { return kPad; }
std::span<const KernelCandidate> pad_backward() { return kPadBackward; }
std::span<const KernelCandidate> tile() { return kTile; }
std::span<const KernelCandidate> repeat() { return kRepeat; }

void write_window_in_zeros(const TensorView& in, const TensorView& out, const ViewSpec& spec) {
  std::memset(out.data, 0, static_cast<std::size_t>(out.numel()) * item_size(out.dtype));
  copy_strided(in.shape, pointer(in), {at(out, spec.offset), spec.strides, out.dtype});
}

}  // namespace lockstep::kernels
