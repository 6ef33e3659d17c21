// SPDX-License-Identifier: Apache-2.0
// x[...] and x[...] = value, by NumPy's rules.
#include <string>
#include <vector>

#include "bindings/casters.h"
#include "bindings/errors.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"

namespace lockstep::python {
namespace {

std::optional<std::int64_t> bound(PyObject* value) {
  if (value == Py_None) return std::nullopt;
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (!index) throw py::error_already_set();
  return py::cast<std::int64_t>(index);
}

// What one item takes of the tensor's axes.
int axes_of(const Index& index) {
  const Index::Item& item = index.item();
  if (std::holds_alternative<NewAxis>(item) || std::holds_alternative<lockstep::Ellipsis>(item))
    return 0;
  if (const auto* tensor = std::get_if<Tensor>(&item))
    return tensor->dtype() == DType::boolean ? tensor->rank() : 1;
  return 1;
}

Tensor index_array(PyObject* object) {
  Tensor array = to_tensor(object);
  if (array.dtype() == DType::float32 && array.numel() == 0) return cast(array, DType::int64);
  if (is_floating(array.dtype()))
    throw py::index_error("index: expected integers, booleans, slices, None or ..., got " +
                          array.info().str());
  if (array.dtype() == DType::boolean || array.dtype() == DType::int32) return array;
  return cast(array, DType::int64);
}

Index to_index(PyObject* item) {
  if (PyBool_Check(item)) return Tensor::scalar(item == Py_True ? 1.0 : 0.0, DType::boolean);
  if (PySlice_Check(item)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(item);
    return Slice{bound(slice->start), bound(slice->stop), bound(slice->step)};
  }
  if (item == Py_None) return newaxis;
  if (item == Py_Ellipsis) return lockstep::ellipsis;
  if (PyLong_Check(item)) return py::cast<std::int64_t>(py::handle(item));
  if (PyIndex_Check(item) && !is_tensor(item) && !PySequence_Check(item)) return *bound(item);
  return index_array(item);
}

void check_range(const Tensor& x, std::int64_t position, int axis) {
  const std::int64_t extent = x.shape()[axis];
  if (position < -extent || position >= extent)
    throw py::index_error("index " + std::to_string(position) + " is out of range for axis " +
                          std::to_string(axis) + " with " + std::to_string(extent) + " elements");
}

void check_array(const Tensor& x, const Tensor& indices, int axis) {
  if (indices.is_symbolic() || x.is_symbolic() || indices.dtype() == DType::boolean) return;
  for (const std::int64_t position : indices.to_vector<std::int64_t>())
    check_range(x, position, axis);
}

// Python's own loops end by an IndexError, so those are told before the engine looks.
void check_indices(const Tensor& x, const std::vector<Index>& indices) {
  int taken = 0;
  for (const Index& index : indices) taken += axes_of(index);
  if (taken > x.rank())
    throw py::index_error("index: " + std::to_string(taken) + " of " + x.info().str() +
                          ", which has " + std::to_string(x.rank()) + " axes");
  int axis = 0;
  for (const Index& index : indices) {
    if (std::holds_alternative<lockstep::Ellipsis>(index.item())) axis += x.rank() - taken;
    if (const auto* position = std::get_if<std::int64_t>(&index.item()))
      check_range(x, *position, axis);
    if (const auto* tensor = std::get_if<Tensor>(&index.item())) check_array(x, *tensor, axis);
    axis += axes_of(index);
  }
}

std::vector<Index> to_indices(const Tensor& x, PyObject* key) {
  std::vector<Index> indices;
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      indices.push_back(to_index(PyTuple_GET_ITEM(key, i)));
  } else {
    indices.push_back(to_index(key));
  }
  check_indices(x, indices);
  return indices;
}

}  // namespace

PyObject* tensor_subscript(PyObject* self, PyObject* key) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    const std::vector<Index> indices = to_indices(x, key);
    Tensor result;
    {
      const Unlocked unlocked(x.numel() >= kManyElements);
      result = index(x, indices);
    }
    return wrap(std::move(result));
  });
}

int tensor_assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    const Tensor& x = tensor_of(self);
    if (value == nullptr) throw py::type_error("elements of a tensor cannot be deleted");
    const std::vector<Index> indices = to_indices(x, key);
    const Tensor source = to_tensor(value, &x);
    const Unlocked unlocked(x.numel() >= kManyElements);
    index_assign(x, indices, source);
    return 0;
  });
}

}  // namespace lockstep::python
