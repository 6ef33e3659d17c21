// SPDX-License-Identifier: Apache-2.0
// Memory that tensors share with NumPy, PyTorch and whoever else speaks the buffer protocol or
// DLPack.
#include <cstring>
#include <numeric>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/dlpack.h"
#include "bindings/errors.h"

namespace lockstep::python {
namespace {

// By the struct module's letters; nothing where it has none.
const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return "f";
    case DType::float64: return "d";
    case DType::float16: return "e";
    case DType::int8: return "b";
    case DType::uint8: return "B";
    case DType::int16: return "h";
    case DType::int32: return "i";
    case DType::int64: return "q";
    case DType::boolean: return "?";
    case DType::bfloat16: return nullptr;
  }
  return nullptr;
}

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t item) {
  if (format == nullptr) return DType::uint8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strlen(format) != 1) return std::nullopt;
  switch (*format) {
    case 'f': return DType::float32;
    case 'd': return DType::float64;
    case 'e': return DType::float16;
    case '?': return DType::boolean;
    case 'b': return DType::int8;
    case 'B': return DType::uint8;
    case 'h': return DType::int16;
    case 'i': return DType::int32;
    case 'l':
    case 'q': return item == 8 ? DType::int64 : DType::int32;
    default: return std::nullopt;
  }
}

struct Exported {
  Tensor tensor;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  const Tensor& x = tensor_of(self);
  const char* format = format_of(x.dtype());
  if (format == nullptr || x.is_symbolic() || !x.device().is_host()) {
    PyErr_SetString(PyExc_BufferError, x.is_symbolic()
                                           ? "a tensor of a trace has no memory"
                                           : "bfloat16 has no place in the buffer protocol");
    return -1;
  }
  return guarded_int([&] {
    auto held = std::make_unique<Exported>(Exported{x, {}, {}});
    const auto item = static_cast<Py_ssize_t>(item_size(x.dtype()));
    for (const std::int64_t extent : x.shape()) held->shape.push_back(extent);
    for (const std::int64_t stride : x.strides()) held->strides.push_back(stride * item);
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !x.is_contiguous())
      throw py::buffer_error("the tensor is not contiguous");
    view->buf = x.numel() == 0 ? static_cast<void*>(held.get()) : x.raw();
    view->obj = Py_NewRef(self);
    view->len = x.numel() * item;
    view->itemsize = item;
    view->readonly = 0;
    view->ndim = x.rank();
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
    view->shape = (flags & PyBUF_ND) != 0 ? held->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? held->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = held.release();
    return 0;
  });
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

// A window on memory that `owner` keeps; nothing where elements do not lie as tensors have them.
std::optional<Tensor> share(void* data, const Shape& shape, const Strides& strides, DType dtype,
                            std::shared_ptr<void> owner) {
  std::int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (strides[i] < 0) return std::nullopt;
    last += (shape[i] - 1) * strides[i];
  }
  const std::size_t item = item_size(dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % item != 0) return std::nullopt;
  const std::size_t bytes = shape.numel() == 0 ? 0 : static_cast<std::size_t>(last + 1) * item;
  return Tensor::view_of(Storage::borrow(data, bytes, {}, std::move(owner)), shape, strides, 0,
                         dtype);
}

std::optional<Strides> element_strides(const Py_buffer& view, std::size_t item) {
  Strides strides = Dims::filled(view.ndim, 0);
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] % static_cast<Py_ssize_t>(item) != 0) return std::nullopt;
    strides[i] = view.strides[i] / static_cast<Py_ssize_t>(item);
  }
  return strides;
}

std::shared_ptr<void> keep_view(std::unique_ptr<Py_buffer> view) {
  return {view.release(), [](void* kept) {
            if (Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0) return;
            const PyGILState_STATE state = PyGILState_Ensure();
            auto* held = static_cast<Py_buffer*>(kept);
            PyBuffer_Release(held);
            delete held;
            PyGILState_Release(state);
          }};
}

dlpack::ElementType element_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * item_size(dtype));
  if (dtype == DType::boolean) return {dlpack::kBool, bits, 1};
  if (dtype == DType::bfloat16) return {dlpack::kBFloat, bits, 1};
  if (is_floating(dtype)) return {dlpack::kFloat, bits, 1};
  return {dtype == DType::uint8 ? dlpack::kUInt : dlpack::kInt, bits, 1};
}

DType dtype_of_element(const dlpack::ElementType& type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const dlpack::ElementType known = element_type(dtype);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return dtype;
  }
  throw InvalidArgument("from_dlpack: there is no dtype with code {}, {} bits and {} lanes",
                        type.code, type.bits, type.lanes);
}

struct Lent {
  dlpack::ManagedArray managed;
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
};

void release_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  auto* managed = static_cast<dlpack::ManagedArray*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->release(managed);
}

py::object to_dlpack(const Tensor& x) {
  auto lent = std::make_unique<Lent>();
  lent->tensor = x;
  lent->shape = x.shape().vector();
  lent->strides = x.strides().vector();
  lent->managed.array = {x.numel() == 0 ? nullptr : x.raw(),
                         {dlpack::kCpu, 0},
                         x.rank(),
                         element_type(x.dtype()),
                         lent->shape.data(),
                         lent->strides.data(),
                         0};
  lent->managed.context = lent.get();
  lent->managed.release = [](dlpack::ManagedArray* self) {
    delete static_cast<Lent*>(self->context);
  };
  PyObject* capsule = PyCapsule_New(&lent->managed, "dltensor", release_capsule);
  if (capsule == nullptr) throw py::error_already_set();
  lent.release();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

PyBufferProcs tensor_buffer = {get_buffer, release_buffer};

std::optional<Tensor> tensor_of_buffer(PyObject* object) {
  if (PyObject_CheckBuffer(object) == 0) return std::nullopt;
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object, view.get(), PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const std::optional<DType> dtype = dtype_of_format(view->format, view->itemsize);
  std::optional<Strides> strides;
  if (dtype && view->suboffsets == nullptr && view->ndim <= kMaxRank)
    strides = element_strides(*view, item_size(*dtype));
  std::optional<Tensor> result;
  if (strides) {
    const bool read_only = view->readonly != 0;
    Shape shape = Dims::filled(view->ndim, 0);
    for (int i = 0; i < view->ndim; ++i) shape[i] = view->shape[i];
    void* data = view->buf;
    result = share(data, shape, *strides, *dtype, keep_view(std::move(view)));
    if (result && read_only) result = result->copy();
    return result;
  }
  PyBuffer_Release(view.get());
  return result;
}

Tensor tensor_of_dlpack(const py::object& object) {
  py::object capsule = object;
  if (PyCapsule_CheckExact(object.ptr()) == 0) {
    const auto device = py::cast<std::pair<int, int>>(object.attr("__dlpack_device__")());
    if (device.first != dlpack::kCpu)
      throw InvalidArgument("from_dlpack: the memory is on a device of kind {}, not on the host",
                            device.first);
    capsule = object.attr("__dlpack__")();
  }
  auto* managed =
      static_cast<dlpack::ManagedArray*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  const dlpack::Array& array = managed->array;
  const DType dtype = dtype_of_element(array.type);
  const Shape shape(
      std::span<const std::int64_t>(array.shape, static_cast<std::size_t>(array.rank)));
  const Strides strides = array.strides == nullptr
                              ? contiguous_strides(shape)
                              : Strides(std::span<const std::int64_t>(
                                    array.strides, static_cast<std::size_t>(array.rank)));
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  std::shared_ptr<void> owner(managed, [](void* kept) {
    auto* array_ = static_cast<dlpack::ManagedArray*>(kept);
    if (Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0 || array_->release == nullptr) return;
    const PyGILState_STATE state = PyGILState_Ensure();
    array_->release(array_);
    PyGILState_Release(state);
  });
  auto result = share(static_cast<std::byte*>(array.data) + array.byte_offset, shape, strides,
                      dtype, std::move(owner));
  if (!result) throw InvalidArgument("from_dlpack: strides {} cannot be shared", strides.str());
  return *result;
}

void bind_memory(py::module_& m) {
  m.def("_as_tensor", [](const py::object& object) { return to_tensor(object); });
  m.def("_to_dlpack", &to_dlpack);
  m.def("from_dlpack", &tensor_of_dlpack, py::arg("array"),
        "A tensor on the memory of another library's array: it is never copied.");
  m.def("_share_buffer", [](const py::object& object) -> py::object {
    const std::optional<Tensor> shared = tensor_of_buffer(object.ptr());
    return shared ? py::cast(*shared) : py::none();
  });
  m.def("_from_bytes", [](const py::bytes& bytes, DType dtype, const Shape& shape) {
    Tensor made = Tensor::empty(shape, dtype);
    const std::string_view view = bytes;
    if (view.size() != made.info().bytes())
      throw InvalidArgument("tensor: {} bytes do not fill {}", view.size(), made.info().str());
    if (!view.empty()) std::memcpy(made.raw(), view.data(), view.size());
    return made;
  });
  m.def("_to_bytes", [](const Tensor& x) {
    const Tensor dense = x.contiguous();
    if (x.numel() == 0) return py::bytes();
    return py::bytes(reinterpret_cast<const char*>(dense.raw()), dense.info().bytes());
  });
}

}  // namespace lockstep::python
