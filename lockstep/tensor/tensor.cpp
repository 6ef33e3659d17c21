// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/tensor.h"

#include <algorithm>

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep {
namespace {

[[noreturn, gnu::cold]] void fail_negative(const Shape& shape) {
  throw InvalidArgument("tensor: shape {} has a negative size", shape.str());
}

[[noreturn, gnu::cold]] void fail_overflow(const Shape& shape, DType dtype) {
  throw OutOfMemory("memory: shape {} of {} does not fit any memory", shape.str(), name_of(dtype));
}

// Fills in the row-major strides of a shape. Returns the bytes of its elements.
std::size_t make_contiguous(const Shape& shape, DType dtype, Strides& strides) {
  strides = shape;
  std::int64_t step = 1, count = 1;  // count: 0 where there is no element
  bool overflow = false;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const std::int64_t size = shape[i];
    if (size < 0) fail_negative(shape);
    strides[i] = step;
    if (size == 0) count = 0;
    overflow |= __builtin_mul_overflow(step, std::max<std::int64_t>(size, 1), &step);
  }
  overflow |= __builtin_mul_overflow(step, static_cast<std::int64_t>(item_size(dtype)), &step);
  if (overflow) fail_overflow(shape, dtype);
  return static_cast<std::size_t>(count * step);
}

// The bytes of its storage between which a window lies.
struct Extent {
  std::int64_t begin;
  std::int64_t end;
};

Extent extent_of(const Tensor& tensor) {
  std::int64_t first = tensor.offset();
  std::int64_t last = tensor.offset();
  for (int i = 0; i < tensor.rank(); ++i) {
    const std::int64_t reach = (tensor.shape()[i] - 1) * tensor.strides()[i];
    (reach < 0 ? first : last) += reach;
  }
  const auto item = static_cast<std::int64_t>(item_size(tensor.dtype()));
  return {first * item, (last + 1) * item};
}

// Whether writing the target element by element could change elements of the source not yet read.
bool must_copy_first(const Tensor& target, const Tensor& source) {
  if (source.storage() != target.storage() || target.numel() == 0) return false;
  if (source.info() == target.info() && source.strides() == target.strides() &&
      source.offset() == target.offset())
    return false;
  const Extent read = extent_of(source);
  const Extent written = extent_of(target);
  return read.begin < written.end && written.begin < read.end;
}

void check_defined(const Tensor& tensor) {
  if (!tensor.defined()) throw InvalidArgument("tensor: undefined");
}

[[noreturn, gnu::cold, gnu::noinline]] void fail_traced(const TensorInfo& info) {
  throw InvalidArgument("tensor: {} stands for a graph value and has no data while tracing",
                        info.str());
}

[[gnu::noinline]] std::byte* element_at(std::byte* first, std::int64_t offset, DType dtype) {
  return first + offset * static_cast<std::int64_t>(item_size(dtype));
}

StridedPointer pointer_to(const Tensor& tensor) {
  return {tensor.address(), tensor.strides(), tensor.dtype()};
}

std::span<std::byte> bytes_of(const Tensor& dense) { return {dense.raw(), dense.info().bytes()}; }

Tensor read_back(const Tensor& source, const Device& host) {
  const Tensor dense = source.contiguous();
  const Tensor result = Tensor::empty(source.shape(), source.dtype(), host);
  source.device().backend->copy_out(dense.address(), bytes_of(result)).wait();
  return result;
}

}  // namespace

std::string TensorInfo::str() const { return std::string(name_of(dtype)) + shape.str(); }

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  // Written in place, field by field: whole structs from temporaries cost more than the allocation.
  auto impl = std::make_shared<Impl>();
  impl->info.shape = shape;
  impl->info.dtype = dtype;
  impl->info.device = device;
  impl->storage = Storage::allocate(make_contiguous(shape, dtype, impl->strides), device);
  return Tensor(std::move(impl));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor result = empty(shape, dtype, device.is_host() ? device : Device());
  std::memset(result.raw(), 0, result.info().bytes());
  return handed_to(device, std::move(result));
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor result = empty(shape, dtype, device.is_host() ? device : Device());
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(result.data<T>(), result.numel(), convert_element<T>(value));
  });
  return handed_to(device, std::move(result));
}

Tensor Tensor::scalar(double value, DType dtype, Device device) {
  return full({}, value, dtype, device);
}

Tensor Tensor::view_of(std::shared_ptr<Storage> storage, const Shape& shape, const Strides& strides,
                       std::int64_t offset, DType dtype) {
  auto impl = std::make_shared<Impl>();
  impl->info = {shape, dtype, storage->device()};
  impl->strides = strides;
  impl->offset = offset;
  impl->storage = std::move(storage);
  return Tensor(std::move(impl));
}

Tensor Tensor::symbolic(const TensorInfo& info, std::shared_ptr<TraceValue> value) {
  check(value != nullptr, "a symbolic tensor needs a graph value");
  auto impl = std::make_shared<Impl>();
  impl->info = info;
  impl->strides = contiguous_strides(info.shape);
  impl->value = std::move(value);
  return Tensor(std::move(impl));
}

std::int64_t Tensor::shape(int axis) const {
  check_defined(*this);
  return shape()[normalize_axis("shape", axis, rank())];
}

std::byte* Tensor::raw() const {
  std::byte* first = address();
  if (!impl_->storage->is_host()) [[unlikely]]
    throw InvalidArgument(
        "tensor: {} is on {}, whose memory the host cannot read: copy it with to(cpu())",
        info().str(), device().str());
  return first;
}

std::byte* Tensor::address() const {
  const Impl& own = self();
  if (own.storage == nullptr) [[unlikely]]
    fail_traced(own.info);
  std::byte* first = own.storage->data();
  return own.offset == 0 ? first : element_at(first, own.offset, own.info.dtype);
}

void Tensor::fail_undefined() { throw InvalidArgument("tensor: undefined"); }

void Tensor::fail_dtype(DType asked) const {
  throw InvalidArgument("tensor: asked for {} data of a {} tensor", name_of(asked),
                        name_of(dtype()));
}

double Tensor::item() const {
  check_defined(*this);
  if (numel() != 1)
    throw InvalidArgument("item: needs exactly one element, the shape is {}", shape().str());
  return to_vector<double>()[0];
}

Tensor Tensor::contiguous() const {
  check_defined(*this);
  if (is_contiguous()) return *this;
  return copy();
}

Tensor Tensor::copy() const {
  check_defined(*this);
  Tensor result = empty(shape(), dtype(), device());
  result.assign(*this);
  return result;
}

void Tensor::assign(const Tensor& source) const {
  check_defined(*this);
  check_defined(source);
  const Shape joint = broadcast_shapes("assign", shape(), source.shape());
  if (!(joint == shape()))
    throw InvalidArgument("assign: a value of shape {} does not fit into {}", source.shape().str(),
                          shape().str());
  if (must_copy_first(*this, source)) return assign(source.copy());
  if (source.device().backend != device().backend) return assign(source.to(device()));
  StridedPointer from = pointer_to(source);
  from.strides = broadcast_strides(source.shape(), source.strides(), shape());
  if (device().is_host())
    copy_strided(shape(), from, pointer_to(*this));
  else
    device().backend->copy(shape(), from, pointer_to(*this));
}

Tensor Tensor::to(Device device) const {
  check_defined(*this);
  if (device == this->device()) return *this;
  address();  // a graph value has none, and says so
  if (!this->device().is_host())
    return read_back(*this, device.is_host() ? device : Device()).to(device);
  Tensor result = empty(shape(), dtype(), device);
  if (device.is_host()) {
    result.assign(*this);
  } else {
    const Tensor dense = contiguous();
    device.backend->copy_in(bytes_of(dense), result.address()).wait();
  }
  return result;
}

Tensor Tensor::handed_to(const Device& device, Tensor host) {
  if (device.is_host()) return host;
  Tensor result = empty(host.shape(), host.dtype(), device);
  device.backend->copy_in(bytes_of(host), result.address(), host.storage());
  return result;
}

Tensor Tensor::detach() const {
  check_defined(*this);
  auto impl = std::make_shared<Impl>(*impl_);
  impl->tape = nullptr;
  if (impl->value != nullptr) {
    impl->value = std::make_shared<TraceValue>(*impl->value);
    impl->value->history = History::none;
  }
  return Tensor(std::move(impl));
}

Tensor Tensor::window(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  check_defined(*this);
  check(impl_->storage != nullptr, "a symbolic tensor has no memory to look at");
  return view_of(impl_->storage, shape, strides, offset, dtype());
}

}  // namespace lockstep
