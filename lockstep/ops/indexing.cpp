// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/indexing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/tensor/copy.h"

namespace lockstep {
namespace {

template <class T>
const T* as(const Index& index) {
  return std::get_if<T>(&index.item());
}

bool is_mask(const Index& index) {
  const Tensor* tensor = as<Tensor>(index);
  return tensor != nullptr && tensor->dtype() == DType::boolean;
}

void check_indices(const char* op, const std::vector<Index>& indices) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (const Tensor* tensor = as<Tensor>(indices[i]); tensor != nullptr && !tensor->defined())
      throw InvalidArgument("{}: index {} is undefined", op, i);
}

int axes_taken(const Index& index) {
  if (as<NewAxis>(index) || as<Ellipsis>(index)) return 0;
  return is_mask(index) ? as<Tensor>(index)->rank() : 1;
}

// The list with whole slices after its ellipsis, or at its end where none is written.
std::vector<Index> with_every_axis(const Shape& shape, const std::vector<Index>& indices) {
  int taken = 0;
  int written = 0;
  for (const Index& index : indices) {
    taken += axes_taken(index);
    written += as<Ellipsis>(index) != nullptr;
  }
  if (written > 1) throw InvalidArgument("index: {} ellipses, at most one has a meaning", written);
  if (taken > shape.rank())
    throw InvalidArgument("index: {} axes are indexed, the shape is {}", taken, shape.str());
  const std::vector<Index> rest(static_cast<std::size_t>(shape.rank() - taken), Slice{});
  std::vector<Index> all;
  for (const Index& index : indices) {
    all.push_back(index);
    if (as<Ellipsis>(index)) all.insert(all.end(), rest.begin(), rest.end());
  }
  if (written == 0) all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

// One int64 tensor for each axis of the mask: where it is true, row major.
std::vector<Tensor> nonzero(const Tensor& mask) {
  const std::vector<std::uint8_t> flags = mask.to(cpu()).to_vector<std::uint8_t>();
  std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(mask.rank()));
  Shape at = Shape::filled(mask.rank(), 0);
  for (std::uint8_t flag : flags) {
    if (flag)
      for (int axis = 0; axis < mask.rank(); ++axis)
        found[static_cast<std::size_t>(axis)].push_back(at[axis]);
    for (int axis = mask.rank() - 1; axis >= 0 && ++at[axis] == mask.shape()[axis]; --axis)
      at[axis] = 0;
  }
  std::vector<Tensor> result;
  for (const auto& list : found)
    result.push_back(Tensor::from(list, {static_cast<std::int64_t>(list.size())}, mask.device()));
  return result;
}

Tensor as_indices(const Tensor& tensor) {
  if (tensor.dtype() == DType::int32 || tensor.dtype() == DType::int64) return tensor;
  if (is_integral(tensor.dtype())) return cast(tensor, DType::int64);
  throw InvalidArgument("index: a tensor of {} cannot be an index", name_of(tensor.dtype()));
}

// What an index list comes to: a window on the tensor, and tensors of indices for some of the
// window's axes.
struct Resolved {
  Tensor window;
  std::vector<int> axes;  // ascending
  std::vector<Tensor> indices;
  bool adjacent = true;  // nothing was written between the tensors, not even an empty ellipsis

  Shape dims() const {
    Shape result;
    for (int axis : axes) result.push_back(window.shape()[axis]);
    return result;
  }
};

class Resolver {
 public:
  Resolver(const Tensor& x, const std::vector<Index>& indices)
      : x_(x), items_(with_every_axis(x.shape(), indices)) {
    for (const Index& item : items_) advanced_ = advanced_ || as<Tensor>(item) != nullptr;
  }

  Resolved run() {
    for (const Index& item : items_) add(item);
    resolved_.window = x_;
    if (is_cut_) resolved_.window = slice(x_, begin_, end_, step_);
    if (!dropped_.empty()) resolved_.window = squeeze(resolved_.window, dropped_);
    for (int axis : inserted_) resolved_.window = expand_dims(resolved_.window, axis);
    return std::move(resolved_);
  }

 private:
  std::int64_t size() const { return x_.shape()[static_cast<int>(begin_.size())]; }

  void add(const Index& item) {
    if (const auto* position = as<std::int64_t>(item)) {
      add_position(*position);
    } else if (const auto* range = as<Slice>(item)) {
      add_slice(*range);
    } else if (as<Tensor>(item)) {
      add_tensor(item);
    } else {
      gap_ = true;
      if (as<NewAxis>(item)) inserted_.push_back(axis_++);
    }
  }

  void add_position(std::int64_t position) {
    const std::int64_t place = position < 0 ? position + size() : position;
    if (place < 0 || place >= size())
      throw InvalidArgument("index: {} is out of range for axis {} of size {}", position,
                            begin_.size(), size());
    // Beside tensors of indices an integer is one of them.
    if (advanced_)
      return add_indices(Tensor::scalar(static_cast<double>(place), DType::int64, x_.device()));
    dropped_.push_back(static_cast<std::int64_t>(begin_.size()));
    take_axis(place, place + 1, 1);
    is_cut_ = true;
  }

  void add_slice(const Slice& range) {
    const std::int64_t step = range.step.value_or(1);
    const bool back = step < 0;
    const std::int64_t far = std::numeric_limits<std::int64_t>::min() / 2;
    const std::int64_t begin = range.begin.value_or(back ? size() : 0);
    is_cut_ = is_cut_ || range.begin || range.end || range.step;
    take_axis(begin, range.end.value_or(back ? far : size()), step);
    ++axis_;
    gap_ = true;
  }

  void add_tensor(const Index& item) {
    const Tensor& tensor = *as<Tensor>(item);
    if (!is_mask(item)) return add_indices(as_indices(tensor));
    if (tensor.rank() == 0) throw InvalidArgument("index: a mask needs at least one axis");
    const int first = static_cast<int>(begin_.size());
    for (int i = 0; i < tensor.rank(); ++i)
      if (tensor.shape()[i] != x_.shape()[first + i])
        throw InvalidArgument("index: a mask of shape {} does not fit {} at axis {}",
                              tensor.shape().str(), x_.shape().str(), first);
    for (const Tensor& indices : nonzero(tensor)) add_indices(indices);
  }

  void add_indices(const Tensor& indices) {
    if (gap_ && !resolved_.axes.empty()) resolved_.adjacent = false;
    gap_ = false;
    resolved_.axes.push_back(axis_++);
    resolved_.indices.push_back(indices);
    take_axis(0, size(), 1);
  }

  void take_axis(std::int64_t begin, std::int64_t end, std::int64_t step) {
    begin_.push_back(begin);
    end_.push_back(end);
    step_.push_back(step);
  }

  const Tensor& x_;
  std::vector<Index> items_;
  bool advanced_ = false;
  bool is_cut_ = false;
  Ints begin_, end_, step_;    // of x's axes
  Ints dropped_;               // axes of x
  std::vector<int> inserted_;  // axes of the window
  int axis_ = 0;               // of the window, next
  bool gap_ = false;           // something other than a tensor came last
  Resolved resolved_;
};

// The window's axes with the indexed ones first.
Ints indexed_axes_first(const Resolved& resolved) {
  Ints order(resolved.axes.begin(), resolved.axes.end());
  for (int i = 0; i < resolved.window.rank(); ++i)
    if (std::find(resolved.axes.begin(), resolved.axes.end(), i) == resolved.axes.end())
      order.push_back(i);
  return order;
}

// `count` axes from `first` on, made one.
Tensor merge_axes_at(const Tensor& x, int first, int count) {
  Ints shape(x.shape().begin(), x.shape().begin() + first);
  std::int64_t merged = 1;
  for (int i = first; i < first + count; ++i) merged *= x.shape()[i];
  shape.push_back(merged);
  shape.insert(shape.end(), x.shape().begin() + first + count, x.shape().end());
  return reshape(x, shape);
}

Tensor take_indexed(const Resolved& resolved) {
  const int count = static_cast<int>(resolved.axes.size());
  if (count == 1) return take(resolved.window, resolved.indices[0], resolved.axes[0]);
  const Tensor places = ravel_index(resolved.indices, resolved.dims());
  if (resolved.adjacent)
    return take(merge_axes_at(resolved.window, resolved.axes[0], count), places, resolved.axes[0]);
  const Tensor ordered = transpose(resolved.window, indexed_axes_first(resolved));
  return take(merge_axes_at(ordered, 0, count), places, 0);
}

void check_fits(const Shape& value, const Shape& target) {
  bool fits = value.rank() <= target.rank();
  for (int i = 1; fits && i <= value.rank(); ++i)
    fits = value[value.rank() - i] == 1 || value[value.rank() - i] == target[target.rank() - i];
  if (!fits)
    throw InvalidArgument("index_assign: a value of shape {} does not fit into {}", value.str(),
                          target.str());
}

Shape head(const Shape& shape, int count) {
  return Shape(shape.span().first(static_cast<std::size_t>(count)));
}
Shape tail(const Shape& shape, int from) {
  return Shape(shape.span().subspan(static_cast<std::size_t>(from)));
}

// The value, broadcast to what the index list names, with the axes of the indices first.
Tensor arranged_value(const Resolved& resolved, const Shape& places, const Shape& rest,
                      const Tensor& value) {
  const int first = resolved.adjacent ? resolved.axes[0] : 0;
  Shape named = head(rest, first);
  for (std::int64_t d : places) named.push_back(d);
  for (std::int64_t d : tail(rest, first)) named.push_back(d);
  check_fits(value.shape(), named);
  Ints order;
  for (int i = 0; i < places.rank(); ++i) order.push_back(first + i);
  for (int i = 0; i < named.rank(); ++i)
    if (i < first || i >= first + places.rank()) order.push_back(i);
  return transpose(expand(value, named), order);
}

// Maps places in a row-major array of x's first axes to offsets in x's memory.
class Offsets {
 public:
  Offsets(const Tensor& x, int axes)
      : shape_(head(x.shape(), axes)), strides_(head(x.strides(), axes)) {
    std::array<Strides*, 1> operands{&strides_};
    merge_axes(shape_, operands);
  }

  std::int64_t operator[](std::int64_t place) const {
    std::int64_t offset = 0;
    for (int i = shape_.rank() - 1; i > 0; place /= shape_[i--])
      offset += place % shape_[i] * strides_[i];
    return offset + place * strides_[0];
  }

 private:
  Shape shape_;
  Strides strides_;
};

void assign_indexed(const Resolved& resolved, const Tensor& value);

// Through a copy of the window, on the host.
void assign_by_host(const Resolved& resolved, const Tensor& value) {
  Resolved host = resolved;
  host.window = resolved.window.to(cpu());
  for (Tensor& indices : host.indices) indices = indices.to(cpu());
  assign_indexed(host, value.to(cpu()));
  resolved.window.assign(host.window);
}

void assign_indexed(const Resolved& resolved, const Tensor& value) {
  if (!resolved.window.device().is_host()) return assign_by_host(resolved, value);
  const Tensor places = ravel_index(resolved.indices, resolved.dims());
  const Tensor target = transpose(resolved.window, indexed_axes_first(resolved));
  const int count = static_cast<int>(resolved.axes.size());
  const Shape rest = tail(target.shape(), count);
  const Tensor source = arranged_value(resolved, places.shape(), rest, cast(value, target.dtype()));
  const auto item = static_cast<std::int64_t>(item_size(target.dtype()));
  const StridedPointer from{source.raw(), tail(source.strides(), places.rank()), target.dtype()};
  const StridedPointer to{target.raw(), tail(target.strides(), count), target.dtype()};
  const bool is_run = is_contiguous(rest, from.strides) && is_contiguous(rest, to.strides);
  const Offsets reads(source, places.rank());
  const Offsets writes(target, count);
  const std::int64_t* place = places.data<std::int64_t>();
  for (std::int64_t p = 0; p < places.numel(); ++p) {
    std::byte* read = from.data + reads[p] * item;
    std::byte* written = to.data + writes[place[p]] * item;
    if (is_run)
      std::memcpy(written, read, static_cast<std::size_t>(rest.numel() * item));
    else
      copy_strided(rest, {read, from.strides, from.dtype}, {written, to.strides, to.dtype});
  }
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Index>& indices) {
  detail::check_defined("index", x);
  check_indices("index", indices);
  return detail::named("index", [&] {
    const Resolved resolved = Resolver(x, indices).run();
    return resolved.axes.empty() ? resolved.window : take_indexed(resolved);
  });
}

void index_assign(const Tensor& target, const std::vector<Index>& indices, const Tensor& value) {
  detail::check_defined("index_assign", target, 0);
  detail::check_defined("index_assign", value, 1);
  check_indices("index_assign", indices);
  if (target.is_symbolic() || value.is_symbolic())
    throw InvalidArgument("index_assign: graph values have no memory to write or read");
  tell_write("index_assign", target);
  tell_write("index_assign", value);
  const InterceptScope unrecorded(nullptr);
  const Resolved resolved = Resolver(target, indices).run();
  const Tensor source = value.storage() == target.storage() ? value.copy() : value;
  if (!resolved.axes.empty()) return assign_indexed(resolved, source);
  check_fits(source.shape(), resolved.window.shape());
  resolved.window.assign(source);
}

}  // namespace lockstep
