// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/tensor/convert.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"
#include "lockstep/tensor/storage.h"

namespace lockstep {

// What is known of a tensor without its contents.
struct TensorInfo {
  Shape shape;
  DType dtype = DType::float32;
  Device device;
  bool operator==(const TensorInfo&) const = default;
  std::size_t bytes() const { return static_cast<std::size_t>(shape.numel()) * item_size(dtype); }
  // "float32[2, 3]"
  std::string str() const;
};

struct TapeEntry;   // autograd's: how the tensor came to be, and where its gradient goes
struct TraceValue;  // graph's: which graph value the tensor stands for

// A typed n-d array: a handle, cheap to copy, on a strided window of shared storage. While tracing
// it stands for a graph value and has no storage. A default-constructed tensor is undefined:
// whatever is asked of it but defined() and the comparisons is an InvalidArgument.
class Tensor {
 public:
  Tensor() = default;

  // Contents are undefined. Throws InvalidArgument or OutOfMemory.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = {});
  static Tensor full(const Shape& shape, double value, DType dtype = DType::float32,
                     Device device = {});
  // A 0-d tensor.
  static Tensor scalar(double value, DType dtype = DType::float32, Device device = {});
  // Copies `values`, row major.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = {});
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}) {
    return from(std::span<const T>(values), shape, device);
  }
  // A window on storage that exists. `offset` and strides count elements.
  static Tensor view_of(std::shared_ptr<Storage> storage, const Shape& shape,
                        const Strides& strides, std::int64_t offset, DType dtype);
  // A tensor that stands for a graph value.
  static Tensor symbolic(const TensorInfo& info, std::shared_ptr<TraceValue> value);

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }
  bool is_symbolic() const { return defined() && impl_->value != nullptr; }
  bool same_as(const Tensor& other) const { return impl_ == other.impl_; }
  // Equal for handles on one tensor, while it lives.
  const void* identity() const { return impl_.get(); }

  const TensorInfo& info() const { return self().info; }
  const Shape& shape() const { return self().info.shape; }
  std::int64_t shape(int axis) const;
  int rank() const { return self().info.shape.rank(); }
  std::int64_t numel() const { return self().info.shape.numel(); }
  DType dtype() const { return self().info.dtype; }
  Device device() const { return self().info.device; }
  const Strides& strides() const { return self().strides; }
  std::int64_t offset() const { return self().offset; }
  const std::shared_ptr<Storage>& storage() const { return self().storage; }
  bool is_contiguous() const { return lockstep::is_contiguous(shape(), strides()); }
  // No other handle and no other window can see this memory.
  bool is_sole_owner() const { return impl_.use_count() == 1 && self().storage.use_count() == 1; }

  // First element. Throws InvalidArgument while tracing, when there is no value yet, and where the
  // host cannot look at the device's memory: copy it with to(cpu()).
  std::byte* raw() const;
  // The same as an address of the device, for its kernels and its backend.
  std::byte* address() const;
  // Throws InvalidArgument when T is not the dtype's type.
  template <class T>
  T* data() const;
  // The only element, whatever the dtype. Throws InvalidArgument when there is not exactly one.
  double item() const;
  // All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  // Row-major and dense: this tensor itself if it is that already, else a copy. Not recorded.
  Tensor contiguous() const;
  // A dense copy. Not recorded.
  Tensor copy() const;
  // Writes `source` (broadcast, converted) into this tensor's memory, which may be the source's
  // too. Not recorded.
  void assign(const Tensor& source) const;
  // The same contents on another device. They are there when it returns.
  Tensor to(Device device) const;
  // The same memory, without history.
  Tensor detach() const;
  // Another window on the same memory; the caller vouches for the bounds.
  Tensor window(const Shape& shape, const Strides& strides, std::int64_t offset) const;

  // As NumPy prints it, long axes shortened; then a line such as "float32[2, 3] cpu(0)".
  std::string str() const;

  // Slots owned by autograd/ and graph/.
  const std::shared_ptr<TapeEntry>& tape_entry() const { return self().tape; }
  void set_tape_entry(std::shared_ptr<TapeEntry> entry) const { self().tape = std::move(entry); }
  const std::shared_ptr<TraceValue>& trace_value() const { return self().value; }

 private:
  struct Impl {
    TensorInfo info;
    Strides strides;
    std::int64_t offset = 0;
    std::shared_ptr<Storage> storage;
    std::shared_ptr<TapeEntry> tape;
    std::shared_ptr<TraceValue> value;
  };
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& self() const {
    if (impl_ == nullptr) [[unlikely]]
      fail_undefined();
    return *impl_;
  }
  [[noreturn]] static void fail_undefined();
  [[noreturn]] void fail_dtype(DType asked) const;
  // For a host tensor that nobody else has: the device takes its contents when it comes to it.
  static Tensor handed_to(const Device& device, Tensor host);

  std::shared_ptr<Impl> impl_;
};

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape, Device device) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel())
    throw InvalidArgument("tensor: {} values do not fill shape {}", values.size(), shape.str());
  Tensor result = empty(shape, dtype_of<T>, device.is_host() ? device : Device());
  if (!values.empty()) std::memcpy(result.raw(), values.data(), values.size_bytes());
  return handed_to(device, std::move(result));
}

template <>
inline Tensor Tensor::from<bool>(const std::vector<bool>& values, const Shape& shape,
                                 Device device) {
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return from(std::span(reinterpret_cast<const bool*>(bytes.data()), bytes.size()), shape, device);
}

template <class T>
T* Tensor::data() const {
  if (dtype() != dtype_of<T>) fail_dtype(dtype_of<T>);
  return reinterpret_cast<T*>(raw());
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor dense = contiguous();
  std::vector<T> result(static_cast<std::size_t>(numel()));
  visit_dtype(dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const S* source = dense.data<S>();
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = convert_element<T>(source[i]);
  });
  return result;
}

}  // namespace lockstep
