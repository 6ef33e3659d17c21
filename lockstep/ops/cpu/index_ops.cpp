// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/index_ops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lockstep/ops/index_attrs.h"
#include "lockstep/tensor/copy.h"

namespace lockstep::kernels {
namespace {

// Calls f(TypeTag<I>{}) with the type of an index tensor.
template <class F>
void visit_index(DType dtype, F&& f) {
  if (dtype == DType::int32)
    f(TypeTag<std::int32_t>{});
  else
    f(TypeTag<std::int64_t>{});
}

// Calls f(TypeTag<U>{}) with an unsigned integer of the dtype's size: enough to move elements.
template <class F>
void visit_bits(DType dtype, F&& f) {
  switch (item_size(dtype)) {
    case 1: return f(TypeTag<std::uint8_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    default: return f(TypeTag<std::uint64_t>{});
  }
}

// Which indices an axis takes: 0..size-1, and -size..-1 where negative ones count from the end.
struct AxisRange {
  const char* op;
  std::int64_t size;
  bool from_end = true;

  std::int64_t operator()(std::int64_t index, std::int64_t position) const {
    // One comparison for most: a negative index is a large unsigned one.
    if (static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(size)) [[likely]]
      return index;
    const std::int64_t place = index < 0 && from_end ? index + size : index;
    if (place < 0 || place >= size) [[unlikely]]
      refuse(index, position);
    return place;
  }

  // Apart from the loops: a message takes the address of what it names, which then would be put
  // into memory for every index.
  [[noreturn, gnu::noinline]] void refuse(std::int64_t index, std::int64_t position) const {
    throw InvalidArgument("{}: index {} at position {} is out of range for axis of size {}", op,
                          index, position, size);
  }
};

std::vector<std::int64_t> read_indices(const TensorView& indices, const AxisRange& range) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(indices.numel()));
  visit_index(indices.dtype, [&](auto tag) {
    const auto* index = indices.as<typename decltype(tag)::type>();
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = range(index[i], static_cast<std::int64_t>(i));
  });
  return places;
}

// An array seen as [outer, size of the axis, inner].
struct Lines {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;

  Lines(const Shape& shape, int axis) : size(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

template <class U>
void take_items(const U* source, U* target, const Lines& lines,
                const std::vector<std::int64_t>& places) {
  for (std::int64_t o = 0; o < lines.outer; ++o, source += lines.size * lines.inner)
    for (std::int64_t place : places) {
      const U* row = source + place * lines.inner;
      if (lines.inner == 1)
        *target = *row;
      else
        std::memcpy(target, row, static_cast<std::size_t>(lines.inner) * sizeof(U));
      target += lines.inner;
    }
}

void take_rows(const TensorView& x, const TensorView& out, int axis,
               const std::vector<std::int64_t>& places) {
  const Lines lines(x.shape, axis);
  visit_bits(x.dtype, [&](auto tag) {
    using U = typename decltype(tag)::type;
    take_items(x.as<U>(), out.as<U>(), lines, places);
  });
}

// Adds rows in the order of their indices, so the sum has one order.
template <class T>
void add_rows(const T* grad, T* out, const Lines& lines, const std::vector<std::int64_t>& places) {
  std::fill_n(out, lines.outer * lines.size * lines.inner, T{});
  for (std::int64_t o = 0; o < lines.outer; ++o, out += lines.size * lines.inner)
    for (std::int64_t place : places) {
      T* row = out + place * lines.inner;
      for (std::int64_t i = 0; i < lines.inner; ++i) row[i] += grad[i];
      grad += lines.inner;
    }
}

void run_embedding(const KernelCall& call) {
  const TensorView& table = call.inputs[1];
  const AxisRange range{"embedding", table.shape[0], false};
  take_rows(table, call.outputs[0], 0, read_indices(call.inputs[0], range));
}

template <class T>
void run_embedding_backward(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const AxisRange range{"embedding_backward", out.shape[0], false};
  add_rows(call.inputs[0].as<T>(), out.as<T>(), Lines(out.shape, 0),
           read_indices(call.inputs[1], range));
}

void run_take(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const int axis = normalize_axis("take", call.attrs.as<AlongAxisAttrs>().axis, x.shape.rank());
  const AxisRange range{"take", x.shape[axis]};
  take_rows(x, call.outputs[0], axis, read_indices(call.inputs[1], range));
}

template <class T>
void run_take_backward(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const auto& attrs = call.attrs.as<TakeBackwardAttrs>();
  const AxisRange range{"take_backward", attrs.size};
  add_rows(call.inputs[0].as<T>(), out.as<T>(), Lines(out.shape, attrs.axis),
           read_indices(call.inputs[1], range));
}

// Walks an index array of `shape` row major and calls visit(position, base): `base` is the offset
// into the indexed array of the element at the same coordinates, at 0 along `axis`.
template <class F>
void walk(const Shape& shape, const Strides& strides, int axis, F&& visit) {
  Strides steps = strides;
  steps[axis] = 0;
  const int last = shape.rank() - 1;
  const std::int64_t rows = shape.numel() / std::max<std::int64_t>(shape[last], 1);
  Shape at = Shape::filled(shape.rank(), 0);
  std::int64_t position = 0;
  std::int64_t base = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < shape[last]; ++i) visit(position++, base + i * steps[last]);
    for (int d = last - 1; d >= 0; --d) {
      base += steps[d];
      if (++at[d] < shape[d]) break;
      base -= at[d] * steps[d];
      at[d] = 0;
    }
  }
}

struct IndexedAxis {
  TensorView array;  // what is indexed
  Shape shape;       // of the index, as many axes as the array
  int axis;
  AxisRange range;
};

void gather_elements(const IndexedAxis& at, const TensorView& index, const TensorView& out) {
  if (at.shape.numel() == 0) return;
  const std::int64_t step = at.array.strides[at.axis];
  visit_index(index.dtype, [&](auto index_tag) {
    const auto* places = index.as<typename decltype(index_tag)::type>();
    visit_bits(out.dtype, [&](auto tag) {
      using U = typename decltype(tag)::type;
      walk(at.shape, at.array.strides, at.axis,
           [&, from = at.array.as<U>(), to = out.as<U>()](std::int64_t p, std::int64_t base) {
             to[p] = from[base + at.range(places[p], p) * step];
           });
    });
  });
}

void run_gather(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& index = call.inputs[1];
  const int axis = normalize_axis("gather", call.attrs.as<AlongAxisAttrs>().axis, x.shape.rank());
  gather_elements({x, index.shape, axis, {"gather", x.shape[axis]}}, index, call.outputs[0]);
}

void run_pick(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& index = call.inputs[1];
  const int axis = normalize_axis("pick", call.attrs.as<AlongAxisAttrs>().axis, x.shape.rank());
  Shape shape = x.shape;
  shape[axis] = 1;
  gather_elements({x, shape, axis, {"pick", x.shape[axis]}}, index, call.outputs[0]);
}

// Along the last axis of a dense array: rows whose elements are side by side. Where the index has
// all rows of x, each is copied just before it is written to.
template <class T, class I, class F>
void scatter_rows(const T* x, const IndexedAxis& at, const I* places, const T* updates, F&& put) {
  const std::int64_t count = at.shape[at.axis], size = at.range.size;
  const AxisRange range = at.range;
  Shape starts = at.shape;
  starts[at.axis] = 1;
  const bool whole = starts.numel() * size == at.array.numel();
  if (!whole) std::copy_n(x, at.array.numel(), at.array.as<T>());
  walk(starts, at.array.strides, at.axis,
       [&, to = at.array.as<T>()](std::int64_t row, std::int64_t base) {
         if (whole) std::copy_n(x + base, size, to + base);
         const std::int64_t first = row * count;
         for (std::int64_t i = first; i < first + count; ++i)
           put(to[base + range(places[i], i)], updates[i]);
       });
}

// Calls put(element, update) for each update, in their order, on a copy of x.
template <class T, class F>
void scatter_elements(const T* x, const IndexedAxis& at, const TensorView& index, const T* updates,
                      F&& put) {
  const std::int64_t step = at.array.strides[at.axis];
  visit_index(index.dtype, [&](auto tag) {
    const auto* places = index.as<typename decltype(tag)::type>();
    if (at.axis == at.shape.rank() - 1) return scatter_rows(x, at, places, updates, put);
    std::copy_n(x, at.array.numel(), at.array.as<T>());
    walk(at.shape, at.array.strides, at.axis,
         [&, to = at.array.as<T>()](std::int64_t p, std::int64_t base) {
           put(to[base + at.range(places[p], p) * step], updates[p]);
         });
  });
}

template <class T, class F>
void scatter_into_copy(const char* op, const KernelCall& call, F&& put) {
  const TensorView& index = call.inputs[1];
  const TensorView& out = call.outputs[0];
  const T* x = call.inputs[0].as<T>();
  const int axis = normalize_axis(op, call.attrs.as<AlongAxisAttrs>().axis, out.shape.rank());
  if (index.numel() == 0)
    std::copy_n(x, out.numel(), out.as<T>());
  else
    scatter_elements(x, {out, index.shape, axis, {op, out.shape[axis]}}, index,
                     call.inputs[2].as<T>(), put);
}

template <class T>
void run_scatter_add(const KernelCall& call) {
  scatter_into_copy<T>("scatter_add", call,
                       [](T& to, T update) { to = static_cast<T>(to + update); });
}

void run_scatter(const KernelCall& call) {
  visit_bits(call.outputs[0].dtype, [&](auto tag) {
    using U = typename decltype(tag)::type;
    scatter_into_copy<U>("scatter", call, [](U& to, U update) { to = update; });
  });
}

void run_one_hot(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const std::int64_t depth = call.attrs.as<OneHotAttrs>().depth;
  const auto places = read_indices(call.inputs[0], {"one_hot", depth, false});
  visit_dtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* row = out.as<T>();
    std::fill_n(row, out.numel(), T{});
    for (std::int64_t place : places) {
      row[place] = static_cast<T>(1.0f);
      row += depth;
    }
  });
}

void run_ravel_index(const KernelCall& call) {
  const Ints& dims = call.attrs.as<RavelIndexAttrs>().dims;
  const TensorView& out = call.outputs[0];
  std::int64_t* place = out.as<std::int64_t>();
  std::vector<std::int64_t> wide(static_cast<std::size_t>(out.numel()));
  std::fill_n(place, out.numel(), 0);
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const TensorView& index = call.inputs[axis];
    copy_strided(
        out.shape,
        {index.data, broadcast_strides(index.shape, index.strides, out.shape), index.dtype},
        {reinterpret_cast<std::byte*>(wide.data()), out.strides, DType::int64});
    const AxisRange range{"index", dims[axis]};
    for (std::size_t i = 0; i < wide.size(); ++i)
      place[i] = place[i] * dims[axis] + range(wide[i], static_cast<std::int64_t>(i));
  }
}

constexpr DTypeSet kIndexTypes{DType::int32, DType::int64};

constexpr KernelCandidate kEmbedding[] = {
    {.name = "copy rows", .dtypes = kIndexTypes, .direct = run_embedding}};
constexpr KernelCandidate kEmbeddingBackward[] = {
    {.name = "float32", .dtypes = {DType::float32}, .direct = run_embedding_backward<float>},
    {.name = "float64", .dtypes = {DType::float64}, .direct = run_embedding_backward<double>}};
constexpr KernelCandidate kTake[] = {
    {.name = "copy rows", .dtypes = kAllTypes, .direct = run_take}};
constexpr KernelCandidate kTakeBackward[] = {
    {.name = "float32", .dtypes = {DType::float32}, .direct = run_take_backward<float>},
    {.name = "float64", .dtypes = {DType::float64}, .direct = run_take_backward<double>}};
constexpr KernelCandidate kGather[] = {
    {.name = "copy elements", .dtypes = kAllTypes, .direct = run_gather}};
constexpr KernelCandidate kPick[] = {
    {.name = "copy elements", .dtypes = kAllTypes, .direct = run_pick}};
constexpr KernelCandidate kScatterAdd[] = {
    {.name = "float32", .dtypes = {DType::float32}, .direct = run_scatter_add<float>},
    {.name = "float64", .dtypes = {DType::float64}, .direct = run_scatter_add<double>},
    {.name = "int8", .dtypes = {DType::int8}, .direct = run_scatter_add<std::int8_t>},
    {.name = "uint8", .dtypes = {DType::uint8}, .direct = run_scatter_add<std::uint8_t>},
    {.name = "int16", .dtypes = {DType::int16}, .direct = run_scatter_add<std::int16_t>},
    {.name = "int32", .dtypes = {DType::int32}, .direct = run_scatter_add<std::int32_t>},
    {.name = "int64", .dtypes = {DType::int64}, .direct = run_scatter_add<std::int64_t>}};
constexpr KernelCandidate kScatter[] = {
    {.name = "copy elements", .dtypes = kAllTypes, .direct = run_scatter}};
constexpr KernelCandidate kOneHot[] = {
    {.name = "fill", .dtypes = kIndexTypes, .direct = run_one_hot}};

constexpr KernelCandidate kRavelIndex[] = {{.name = "multiply and add",
                                            .dtypes = kIndexTypes,
                                            .direct = run_ravel_index,
                                            .strided_inputs = true}};

}  // namespace

std::span<const KernelCandidate> embedding() { return kEmbedding; }
std::span<const KernelCandidate> embedding_backward() { return kEmbeddingBackward; }
std::span<const KernelCandidate> take() { return kTake; }
std::span<const KernelCandidate> take_backward() { return kTakeBackward; }
std::span<const KernelCandidate> gather() { return kGather; }
std::span<const KernelCandidate> pick() { return kPick; }
std::span<const KernelCandidate> scatter_add() { return kScatterAdd; }
std::span<const KernelCandidate> scatter() { return kScatter; }
std::span<const KernelCandidate> one_hot() { return kOneHot; }
std::span<const KernelCandidate> ravel_index() { return kRavelIndex; }

}  // namespace lockstep::kernels
