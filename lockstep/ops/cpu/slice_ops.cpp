// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/slice_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/shard_tree.h"
#include "lockstep/ops/slice_ops.h"

namespace lockstep::kernels {
namespace {

const SliceTransferAttrs& attrs_of(const KernelCall& call) {
  return call.attrs.as<SliceTransferAttrs>();
}
bool has_all(const SliceTransferAttrs& attrs) {
  return attrs.first == 0 && attrs.last == attrs.slices;
}

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(view.numel()) * item_size(view.dtype);
}

void spread_kernel(const KernelCall& call) {
  for (const TensorView& to : call.outputs) std::memcpy(to.data, call.inputs[0].data, bytes_of(to));
}

constexpr std::size_t kBlock = 1024;

// The sum over [lo, hi) of `count` elements from `begin` on. Sums wait in a place of their own for
// each depth of the tree.
template <class T>
void add_range(std::span<const TensorView> parts, std::int64_t lo, std::int64_t hi,
               std::size_t begin, std::size_t count, T* sum) {
  if (hi - lo == 1) {
    std::copy_n(parts[static_cast<std::size_t>(lo)].as<T>() + begin, count, sum);
    return;
  }
  const std::int64_t middle = tree_middle(lo, hi);
  add_range(parts, lo, middle, begin, count, sum);
  T right[kBlock];
  add_range(parts, middle, hi, begin, count, right);
  for (std::size_t i = 0; i < count; ++i) sum[i] += right[i];
}

template <class T>
void sum_kernel(const KernelCall& call) {
  const SliceTransferAttrs& attrs = attrs_of(call);
  const auto count = static_cast<std::size_t>(call.outputs[0].numel());
  T* y = call.outputs[0].as<T>();
  if (has_all(attrs)) {
    for (std::size_t begin = 0; begin < count; begin += kBlock)
      add_range(call.inputs, 0, attrs.slices, begin, std::min(kBlock, count - begin), y + begin);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    std::vector<std::span<const float>> own;
    for (const TensorView& part : call.inputs) own.emplace_back(part.as<float>(), count);
    SliceMeetingScope::current().sum(own, {y, count});
  } else {
    throw InvalidArgument("slice_sum: parts are float64, expected float32: workers meet in it");
  }
}

// The bytes of every slice, one after the other: those of other workers come from there. Each
// slice's have room to a multiple of 4.
struct AllParts {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> begins;
};

AllParts gather_parts(const KernelCall& call, const std::vector<std::size_t>& sizes) {
  const SliceTransferAttrs& attrs = attrs_of(call);
  AllParts all;
  std::vector<std::size_t> rooms;
  std::size_t end = 0;
  for (const std::size_t size : sizes) {
    all.begins.push_back(end);
    rooms.push_back((size + 3) / 4 * 4);
    end += rooms.back();
  }
  all.bytes.resize(end);
  for (std::int64_t k = attrs.first; k < attrs.last; ++k) {
    const TensorView& part = call.inputs[static_cast<std::size_t>(k - attrs.first)];
    std::memcpy(all.bytes.data() + all.begins[static_cast<std::size_t>(k)], part.data,
                bytes_of(part));
  }
  if (!has_all(attrs)) SliceMeetingScope::current().gather(all.bytes, rooms);
  return all;
}

template <class T>
void max_kernel(const KernelCall& call) {
  const SliceTransferAttrs& attrs = attrs_of(call);
  const auto count = static_cast<std::size_t>(call.outputs[0].numel());
  T* y = call.outputs[0].as<T>();
  const AllParts all = gather_parts(
      call, std::vector<std::size_t>(static_cast<std::size_t>(attrs.slices), count * sizeof(T)));
  std::memcpy(y, all.bytes.data(), count * sizeof(T));
  for (std::size_t k = 1; k < all.begins.size(); ++k) {
    const auto* part = reinterpret_cast<const T*>(all.bytes.data() + all.begins[k]);
    for (std::size_t i = 0; i < count; ++i)
      if (part[i] > y[i] || std::isnan(part[i])) y[i] = part[i];
  }
}

// Runs of bytes that lie together in a part, and where they are in the whole.
template <class F>
void for_each_run(const SliceCut& cut, const TensorView& whole, std::int64_t slice, const F& run) {
  std::size_t outer = 1, inner = item_size(whole.dtype);
  for (int axis = 0; axis < cut.axis; ++axis) outer *= static_cast<std::size_t>(whole.shape[axis]);
  for (int axis = cut.axis + 1; axis < whole.shape.rank(); ++axis)
    inner *= static_cast<std::size_t>(whole.shape[axis]);
  const auto k = static_cast<std::size_t>(slice);
  const auto begin = static_cast<std::size_t>(cut.bounds[k]) * inner;
  const auto size = static_cast<std::size_t>(cut.bounds[k + 1]) * inner - begin;
  const auto stretch = static_cast<std::size_t>(cut.stretch()) * inner;
  const std::size_t runs = outer * static_cast<std::size_t>(cut.groups);
  for (std::size_t r = 0; r < runs; ++r) run(r * size, r * stretch + begin, size);
}

void split_kernel(const KernelCall& call) {
  const SliceTransferAttrs& attrs = attrs_of(call);
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    for_each_run(attrs.cut(), call.inputs[0], attrs.first + static_cast<std::int64_t>(i),
                 [&](std::size_t part, std::size_t whole, std::size_t size) {
                   std::memcpy(call.outputs[i].data + part, call.inputs[0].data + whole, size);
                 });
}

void join(const SliceTransferAttrs& attrs, const TensorView& whole, std::int64_t slice,
          const std::byte* part) {
  for_each_run(attrs.cut(), whole, slice, [&](std::size_t from, std::size_t to, std::size_t size) {
    std::memcpy(whole.data + to, part + from, size);
  });
}

void gather_kernel(const KernelCall& call) {
  const SliceTransferAttrs& attrs = attrs_of(call);
  const TensorView& whole = call.outputs[0];
  if (has_all(attrs)) {
    for (std::int64_t k = 0; k < attrs.slices; ++k)
      join(attrs, whole, k, call.inputs[static_cast<std::size_t>(k)].data);
    return;
  }
  const SliceCut cut = attrs.cut();
  const std::size_t unit =
      cut.extent() == 0 ? 0 : bytes_of(whole) / static_cast<std::size_t>(cut.extent());
  std::vector<std::size_t> sizes;
  for (std::int64_t k = 0; k < attrs.slices; ++k)
    sizes.push_back(static_cast<std::size_t>(cut.extent(k)) * unit);
  const AllParts all = gather_parts(call, sizes);
  for (std::int64_t k = 0; k < attrs.slices; ++k)
    join(attrs, whole, k, all.bytes.data() + all.begins[static_cast<std::size_t>(k)]);
}

}  // namespace

std::span<const KernelCandidate> slice_spread_kernels() {
  static constexpr KernelCandidate list[] = {{"copy", kAllTypes, spread_kernel}};
  return list;
}

// Halves come as float32.
std::span<const KernelCandidate> slice_sum_kernels() {
  static constexpr KernelCandidate list[] = {{"float32", {DType::float32}, sum_kernel<float>},
                                             {"float64", {DType::float64}, sum_kernel<double>}};
  return list;
}

std::span<const KernelCandidate> slice_max_kernels() {
  static constexpr KernelCandidate list[] = {{"float32", {DType::float32}, max_kernel<float>},
                                             {"float64", {DType::float64}, max_kernel<double>}};
  return list;
}

std::span<const KernelCandidate> slice_split_kernels() {
  static constexpr KernelCandidate list[] = {{"copy", kAllTypes, split_kernel}};
  return list;
}

std::span<const KernelCandidate> slice_gather_kernels() {
  static constexpr KernelCandidate list[] = {{"copy", kAllTypes, gather_kernel}};
  return list;
}

}  // namespace lockstep::kernels
