// SPDX-License-Identifier: Apache-2.0
// Operators between tensors, numbers and arrays.
#include <vector>

#include "bindings/errors.h"
#include "bindings/py_tensor.h"
#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/unary.h"

namespace lockstep::python {
namespace {

using Pair = Tensor (*)(const Tensor&, const Tensor&);
using WithNumber = Tensor (*)(const Tensor&, double);

// Objects that an operator may meet beside a tensor; others may know better what it means.
bool is_operand(PyObject* object) {
  return object != Py_None && !PyUnicode_Check(object) && !PyBytes_Check(object) &&
         !PyDict_Check(object);
}

bool is_exact(PyObject* number) {
  if (!PyLong_Check(number)) return true;
  const double value = PyLong_AsDouble(number);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value <= 0x1p53 && value >= -0x1p53;
}

Tensor compute(Pair op, const Tensor& a, const Tensor& b) {
  const Unlocked unlocked(a.numel() + b.numel() >= kManyElements);
  return op(a, b);
}

Tensor compute(Pair op, WithNumber number_op, PyObject* a, PyObject* b) {
  if (is_tensor(a)) {
    const Tensor& x = tensor_of(a);
    if (is_tensor(b)) return compute(op, x, tensor_of(b));
    if (number_op != nullptr && is_number(b) && is_exact(b)) {
      const double value = number_value(b);
      const Unlocked unlocked(x.numel() >= kManyElements);
      return number_op(x, value);
    }
    return compute(op, x, to_tensor(b, &x));
  }
  return compute(op, to_tensor(a, &tensor_of(b)), tensor_of(b));
}

template <auto op, WithNumber number_op>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
    return wrap(compute(op, number_op, a, b));
  });
}

// In place, as NumPy's; while something records or traces, which writing would hide from, the name
// becomes that of a new tensor.
template <auto op, WithNumber number_op>
PyObject* in_place(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor result = compute(op, number_op, a, b);
    const Tensor& target = tensor_of(a);
    if (target.is_symbolic() || result.is_symbolic() || autograd::is_recording())
      return wrap(result);
    if (is_floating(result.dtype()) && !is_floating(target.dtype()))
      throw InvalidArgument("in-place operator: the result is {}, which {} would cut off",
                            name_of(result.dtype()), name_of(target.dtype()));
    target.assign(result);
    Py_INCREF(a);
    return a;
  });
}

template <auto op>
PyObject* unary(PyObject* x) {
  return guarded([&] {
    Tensor made;
    {
      const Unlocked unlocked(tensor_of(x).numel() >= kManyElements);
      made = op(tensor_of(x));
    }
    return wrap(std::move(made));
  });
}

PyObject* positive(PyObject* x) {
  Py_INCREF(x);
  return x;
}

// Of bool logic, of integers there is none.
template <Pair op>
Tensor bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::boolean || b.dtype() != DType::boolean)
    throw InvalidArgument("&, | and ^: expected two tensors of bool, got {} and {}", a.info().str(),
                          b.info().str());
  return op(a, b);
}

Tensor inverted(const Tensor& x) {
  if (x.dtype() != DType::boolean)
    throw InvalidArgument("~: expected a tensor of bool, got {}", x.info().str());
  return logical_not(x);
}

Tensor product(const Tensor& a, const Tensor& b) { return matmul(a, b); }

PyObject* power_of(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary<static_cast<Pair>(power), static_cast<WithNumber>(power)>(a, b);
}

int is_true(PyObject* x) {
  return guarded_int([&] {
    const Tensor& value = tensor_of(x);
    if (value.numel() != 1)
      throw InvalidArgument("bool: {} has no one truth value: use any() or all()",
                            value.info().str());
    return value.item() != 0.0 ? 1 : 0;
  });
}

PyObject* to_float(PyObject* x) {
  return guarded([&] { return PyFloat_FromDouble(tensor_of(x).item()); });
}

PyObject* to_int(PyObject* x) {
  return guarded([&]() -> PyObject* {
    const Tensor& value = tensor_of(x);
    if (value.numel() == 1 && value.dtype() == DType::int64)
      return PyLong_FromLongLong(value.to_vector<std::int64_t>()[0]);
    return PyLong_FromDouble(value.item());
  });
}

PyObject* to_index(PyObject* x) {
  if (!is_integral(tensor_of(x).dtype()) || tensor_of(x).rank() != 0) {
    PyErr_SetString(PyExc_TypeError, "only a tensor of one integer, without axes, is an index");
    return nullptr;
  }
  return to_int(x);
}

// Scalars are of the dtype of the other side, which comes second here.
template <WithNumber number_op, Pair op>
PyObject* compare(PyObject* a, PyObject* b) {
  return binary<op, number_op>(a, b);
}

template <auto f>
PyType_Slot slot(int id) {
  return {id, reinterpret_cast<void*>(f)};
}

constexpr auto kAdd = static_cast<Pair>(add);
constexpr auto kSubtract = static_cast<Pair>(subtract);
constexpr auto kMultiply = static_cast<Pair>(multiply);
constexpr auto kDivide = static_cast<Pair>(divide);
constexpr auto kAddNumber = static_cast<WithNumber>(add);
constexpr auto kSubtractNumber = static_cast<WithNumber>(subtract);
constexpr auto kMultiplyNumber = static_cast<WithNumber>(multiply);
constexpr auto kDivideNumber = static_cast<WithNumber>(divide);

}  // namespace

PyObject* tensor_compare(PyObject* a, PyObject* b, int operation) {
  if (!is_operand(b)) {
    if (operation == Py_EQ) Py_RETURN_FALSE;
    if (operation == Py_NE) Py_RETURN_TRUE;
    Py_RETURN_NOTIMPLEMENTED;
  }
  switch (operation) {
    case Py_LT: return compare<static_cast<WithNumber>(less), static_cast<Pair>(less)>(a, b);
    case Py_LE:
      return compare<static_cast<WithNumber>(less_equal), static_cast<Pair>(less_equal)>(a, b);
    case Py_EQ: return compare<static_cast<WithNumber>(equal), static_cast<Pair>(equal)>(a, b);
    case Py_NE:
      return compare<static_cast<WithNumber>(not_equal), static_cast<Pair>(not_equal)>(a, b);
    case Py_GT: return compare<static_cast<WithNumber>(greater), static_cast<Pair>(greater)>(a, b);
    default:
      return compare<static_cast<WithNumber>(greater_equal), static_cast<Pair>(greater_equal)>(a,
                                                                                               b);
  }
}

void add_number_slots(std::vector<PyType_Slot>& slots) {
  const PyType_Slot all[] = {
      slot<binary<kAdd, kAddNumber>>(Py_nb_add),
      slot<binary<kSubtract, kSubtractNumber>>(Py_nb_subtract),
      slot<binary<kMultiply, kMultiplyNumber>>(Py_nb_multiply),
      slot<binary<kDivide, kDivideNumber>>(Py_nb_true_divide),
      slot<binary<static_cast<Pair>(floor_divide), nullptr>>(Py_nb_floor_divide),
      slot<binary<static_cast<Pair>(remainder), nullptr>>(Py_nb_remainder),
      slot<binary<product, nullptr>>(Py_nb_matrix_multiply),
      slot<power_of>(Py_nb_power),
      slot<binary<bits<logical_and>, nullptr>>(Py_nb_and),
      slot<binary<bits<logical_or>, nullptr>>(Py_nb_or),
      slot<binary<bits<logical_xor>, nullptr>>(Py_nb_xor),
      slot<in_place<kAdd, kAddNumber>>(Py_nb_inplace_add),
      slot<in_place<kSubtract, kSubtractNumber>>(Py_nb_inplace_subtract),
      slot<in_place<kMultiply, kMultiplyNumber>>(Py_nb_inplace_multiply),
      slot<in_place<kDivide, kDivideNumber>>(Py_nb_inplace_true_divide),
      slot<unary<static_cast<Tensor (*)(const Tensor&)>(negative)>>(Py_nb_negative),
      slot<unary<static_cast<Tensor (*)(const Tensor&)>(abs)>>(Py_nb_absolute),
      slot<unary<inverted>>(Py_nb_invert),
      slot<positive>(Py_nb_positive),
      slot<is_true>(Py_nb_bool),
      slot<to_float>(Py_nb_float),
      slot<to_int>(Py_nb_int),
      slot<to_index>(Py_nb_index)};
  slots.insert(slots.end(), std::begin(all), std::end(all));
}

}  // namespace lockstep::python
