// SPDX-License-Identifier: Apache-2.0
#include "bindings/py_tensor.h"

#include <structmember.h>

#include <cmath>
#include <new>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/errors.h"
#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/promotion.h"

namespace lockstep::python {

PyTypeObject* tensor_type = nullptr;

namespace {

TensorObject* self_of(PyObject* self) { return reinterpret_cast<TensorObject*>(self); }

PyObject* make(PyTypeObject* type, Tensor tensor) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) throw py::error_already_set();
  new (&self_of(object)->tensor) Tensor(std::move(tensor));
  self_of(object)->weak_references = nullptr;
  return object;
}

// Tensor(data, dtype=None): a copy of what `data` holds.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"data", "dtype", nullptr};
    PyObject *data = nullptr, *dtype = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Tensor", const_cast<char**>(names), &data,
                                     &dtype))
      throw py::error_already_set();
    Tensor value = to_tensor(data);
    if (dtype != Py_None) value = cast(value, to_dtype(dtype));
    return make(type, value.is_symbolic() ? value : value.copy());
  });
}

void tensor_dealloc(PyObject* self) {
  if (self_of(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  PyTypeObject* type = Py_TYPE(self);
  self_of(self)->tensor.~Tensor();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* tensor_repr(PyObject* self) {
  return guarded([&] { return py::str(tensor_of(self).str()).release().ptr(); });
}

Py_ssize_t tensor_length(PyObject* self) {
  const Tensor& x = tensor_of(self);
  if (x.rank() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a tensor without axes");
    return -1;
  }
  return x.shape()[0];
}

PyObject* get_shape(PyObject* self, void*) {
  return guarded([&] { return shape_tuple(tensor_of(self).shape()).release().ptr(); });
}
PyObject* get_strides(PyObject* self, void*) {
  return guarded([&] { return shape_tuple(tensor_of(self).strides()).release().ptr(); });
}
PyObject* get_dtype(PyObject* self, void*) {
  return guarded([&] { return dtype_object(tensor_of(self).dtype()).release().ptr(); });
}
PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return py::cast(tensor_of(self).device()).release().ptr(); });
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(tensor_of(self).rank()); }
PyObject* get_size(PyObject* self, void*) { return PyLong_FromLongLong(tensor_of(self).numel()); }
PyObject* get_grad(PyObject* self, void*) {
  return guarded([&] { return wrap(autograd::gradient(tensor_of(self))); });
}
PyObject* get_requires_grad(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(autograd::requires_grad(tensor_of(self))); });
}
PyObject* get_is_symbolic(PyObject* self, void*) {
  return PyBool_FromLong(tensor_of(self).is_symbolic());
}

PyObject* item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_of(self);
    if (x.dtype() == DType::boolean) return PyBool_FromLong(x.item() != 0.0);
    if (x.dtype() == DType::int64 && x.numel() == 1)
      return PyLong_FromLongLong(x.to_vector<std::int64_t>()[0]);
    const double value = x.item();
    return is_floating(x.dtype()) ? PyFloat_FromDouble(value) : PyLong_FromDouble(value);
  });
}

PyObject* detach(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(tensor_of(self).detach()); });
}
PyObject* copy(PyObject* self, PyObject*) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    Tensor made;
    {
      const Unlocked unlocked(x.numel() >= kManyElements);
      made = x.copy();
    }
    return wrap(std::move(made));
  });
}
PyObject* contiguous(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(tensor_of(self).contiguous()); });
}
PyObject* is_contiguous(PyObject* self, PyObject*) {
  return guarded([&] { return PyBool_FromLong(tensor_of(self).is_contiguous()); });
}
PyObject* same_as(PyObject* self, PyObject* other) {
  return PyBool_FromLong(is_tensor(other) && tensor_of(self).same_as(tensor_of(other)));
}
PyObject* assign(PyObject* self, PyObject* value) {
  return guarded([&] {
    tensor_of(self).assign(to_tensor(value, &tensor_of(self)));
    Py_INCREF(self);
    return self;
  });
}

PyGetSetDef properties[] = {
    {"shape", get_shape, nullptr, "The extent of each axis.", nullptr},
    {"strides", get_strides, nullptr, "The distance along each axis, in elements.", nullptr},
    {"dtype", get_dtype, nullptr, "The type of its elements.", nullptr},
    {"device", get_device, nullptr, "Where its memory is.", nullptr},
    {"ndim", get_ndim, nullptr, "The number of axes.", nullptr},
    {"size", get_size, nullptr, "The number of elements.", nullptr},
    {"grad", get_grad, nullptr, "The gradient that backward left, or None.", nullptr},
    {"requires_grad", get_requires_grad, nullptr, "Whether it has, or leads to, a gradient.",
     nullptr},
    {"is_symbolic", get_is_symbolic, nullptr, "Whether it stands for a value of a trace.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"item", item, METH_NOARGS, "The only element, as a Python number."},
    {"detach", detach, METH_NOARGS, "The same memory, without history."},
    {"copy", copy, METH_NOARGS, "A dense copy. Not recorded."},
    {"contiguous", contiguous, METH_NOARGS, "Itself where it is dense and row-major, else a copy."},
    {"is_contiguous", is_contiguous, METH_NOARGS, "Whether it is dense and row-major."},
    {"same_as", same_as, METH_O, "Whether both are handles on one tensor."},
    {"assign", assign, METH_O,
     "Writes a value (broadcast, converted) into this tensor's memory; returns the tensor."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

PyObject* wrap(Tensor tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  return make(tensor_type, std::move(tensor));
}

double number_value(PyObject* number) {
  const double value = PyFloat_AsDouble(number);
  if (value == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

// Integers of more bits than a double has go through int64, whole.
Tensor number_tensor(PyObject* number, const Tensor* beside) {
  const double value = number_value(number);
  if (PyLong_Check(number) && std::abs(value) > 0x1p53) {
    const Tensor whole = Tensor::from(
        std::vector<std::int64_t>{py::cast<std::int64_t>(py::handle(number))}, Shape());
    return beside == nullptr ? whole : cast(whole, number_dtype(beside->dtype(), value));
  }
  if (beside != nullptr && beside->defined())
    return Tensor::scalar(value, number_dtype(beside->dtype(), value), beside->device());
  if (PyBool_Check(number)) return Tensor::scalar(value, DType::boolean);
  return Tensor::scalar(value, PyLong_Check(number) ? DType::int64 : DType::float32);
}

Tensor to_tensor(PyObject* object, const Tensor* beside) {
  if (is_tensor(object)) return tensor_of(object);
  if (is_number(object)) return number_tensor(object, beside);
  const py::handle handle(object);
  if (py::hasattr(handle, "__lockstep_tensor__"))
    return py::cast<Tensor>(handle.attr("__lockstep_tensor__")());
  if (std::optional<Tensor> shared = tensor_of_buffer(object)) return *shared;
  return py::cast<Tensor>(
      py::module_::import("lockstep._convert").attr("tensor_of")(py::handle(object)));
}

std::shared_ptr<void> keep(py::object object) {
  PyObject* held = object.release().ptr();
  return {held, [](void* kept) {
            // At the interpreter's end there is nobody left to give it back to.
            if (Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0) return;
            const PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(static_cast<PyObject*>(kept));
            PyGILState_Release(state);
          }};
}

void bind_tensor(py::module_& m) {
  std::vector<PyType_Slot> slots = {
      {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
      {Py_tp_getset, properties},
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_tp_hash, reinterpret_cast<void*>(_Py_HashPointer)},
      {Py_tp_richcompare, reinterpret_cast<void*>(tensor_compare)},
      {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
      {Py_mp_subscript, reinterpret_cast<void*>(tensor_subscript)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_assign_subscript)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(tensor_buffer.bf_getbuffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_buffer.bf_releasebuffer)},
      {Py_tp_doc,
       const_cast<char*>("An n-d array of numbers; a handle on memory that views share.\n\n"
                         "Tensor(data, dtype=None) copies what `data` holds.")}};
  add_number_slots(slots);
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"lockstep.Tensor", sizeof(TensorObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (tensor_type == nullptr) throw py::error_already_set();
  m.attr("Tensor") = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(tensor_type));
}

}  // namespace lockstep::python
