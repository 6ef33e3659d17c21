// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>

#include "lockstep/tensor/tensor.h"

// lockstep.Tensor is a type of CPython's own kind and no pybind11 class: a small op costs as much
// as its arguments' conversion, and there is none.
namespace lockstep::python {

namespace py = pybind11;

struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* weak_references;
};

extern PyTypeObject* tensor_type;

inline bool is_tensor(PyObject* object) {
  return Py_TYPE(object) == tensor_type || PyObject_TypeCheck(object, tensor_type);
}
inline const Tensor& tensor_of(PyObject* object) {
  return reinterpret_cast<TensorObject*>(object)->tensor;
}

// A new reference; None for a tensor that is undefined.
PyObject* wrap(Tensor tensor);

// A Python bool, int or float, NumPy's float64 included: a number without a dtype of its own.
inline bool is_number(PyObject* object) { return PyFloat_Check(object) || PyLong_Check(object); }
// What a number is beside a tensor (ops/promotion.h, number_dtype), or alone: float32, int64, bool.
Tensor number_tensor(PyObject* number, const Tensor* beside = nullptr);
double number_value(PyObject* number);

// A tensor of whatever holds numbers: tensors, parameters, arrays (whose memory is shared where
// that is possible), numbers and nested lists of them. Throws TypeError.
Tensor to_tensor(PyObject* object, const Tensor* beside = nullptr);
inline Tensor to_tensor(const py::handle& object) { return to_tensor(object.ptr()); }

// Memory of an object that has the buffer protocol; nothing when it has not, or when its elements
// are of a kind that tensors do not have. What may not be written to is copied.
std::optional<Tensor> tensor_of_buffer(PyObject* object);
Tensor tensor_of_dlpack(const py::object& object);

// Keeps a Python object alive from any thread: the reference is given back under the GIL.
std::shared_ptr<void> keep(py::object object);

// The GIL is given away while it lives, where there is work enough to pay for that.
class Unlocked {
 public:
  explicit Unlocked(bool wanted) : state_(wanted ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};
// Elements from which on that is so.
inline constexpr std::int64_t kManyElements = 4096;

// Slots of the type, one file a protocol.
extern PyBufferProcs tensor_buffer;
PyObject* tensor_subscript(PyObject* self, PyObject* key);
int tensor_assign_subscript(PyObject* self, PyObject* key, PyObject* value);
PyObject* tensor_compare(PyObject* a, PyObject* b, int operation);
void add_number_slots(std::vector<PyType_Slot>& slots);

}  // namespace lockstep::python
