// SPDX-License-Identifier: Apache-2.0
#include "bindings/arguments.h"

#include <string_view>

namespace lockstep::python {
namespace {

using Record = py::detail::function_record;

constexpr std::string_view kNoSignatureFits = "(): incompatible ";
constexpr std::string_view kNoCast = "Unable to cast Python instance";

// pybind's, which is the same for all functions.
PyCFunctionWithKeywords dispatcher = nullptr;

py::object arguments_module() { return py::module_::import("lockstep._arguments"); }

const Record* record_of(PyObject* capsule) {
  if (capsule == nullptr || !PyCapsule_CheckExact(capsule)) return nullptr;
  return static_cast<const Record*>(
      PyCapsule_GetPointer(capsule, py::detail::get_function_record_capsule_name()));
}

// The class that a function is a method of.
std::string scope_of(const Record& record) {
  if (!record.is_method || !record.scope) return "";
  return py::cast<std::string>(record.scope.attr("__name__"));
}

// Throws what is to be said; returns where the error that is set says enough.
void explain(const Record& record, const std::string& message, const py::tuple& args,
             const py::dict& kwargs) {
  const std::string name = record.name == nullptr ? "" : record.name;
  if (message.starts_with(kNoCast))
    throw py::type_error(py::cast<std::string>(
        arguments_module().attr("explain_cast")(scope_of(record), name, message)));
  if (!message.starts_with(name + std::string(kNoSignatureFits))) return;
  py::list signatures;
  for (const Record* one = &record; one != nullptr; one = one->next)
    signatures.append(one->signature);
  throw py::type_error(py::cast<std::string>(arguments_module().attr("explain")(
      scope_of(record), name, record.is_method, signatures, args, kwargs)));
}

void explain_error(const Record& record, PyObject* args, PyObject* kwargs) {
  py::error_already_set raised;
  try {
    explain(record, py::cast<std::string>(py::str(raised.value())),
            py::reinterpret_borrow<py::tuple>(args),
            kwargs == nullptr ? py::dict() : py::reinterpret_borrow<py::dict>(kwargs));
  } catch (const py::builtin_exception& better) {
    return better.set_error();
  } catch (const py::error_already_set&) {
    // A value whose repr raises, say: what pybind said remains.
  }
  raised.restore();
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* made = dispatcher(self, args, kwargs);
  if (made == nullptr && (PyErr_ExceptionMatches(PyExc_TypeError) != 0 ||
                          PyErr_ExceptionMatches(PyExc_RuntimeError) != 0))
    explain_error(*record_of(self), args, kwargs);
  return made;
}

void explain_function(py::handle function) {
  function = py::detail::get_function(function);
  if (!function || PyCFunction_CheckExact(function.ptr()) == 0) return;
  if (record_of(PyCFunction_GET_SELF(function.ptr())) == nullptr) return PyErr_Clear();
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
  const auto own = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call));
  if (method->ml_meth == own) return;
  dispatcher =
      reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(method->ml_meth));
  method->ml_meth = own;
}

void explain_class(const py::handle& type) {
  for (const auto& [name, member] : py::dict(type.attr("__dict__"))) {
    explain_function(member);
    for (const char* part : {"fget", "fset", "__func__"})
      if (py::hasattr(member, part)) explain_function(member.attr(part));
  }
}

}  // namespace

void refuse(const std::string& argument, const std::string& wanted, const py::handle& given) {
  throw py::type_error(argument + " must be " + wanted + ", got " +
                       py::cast<std::string>(arguments_module().attr("shown")(given)));
}

void explain_arguments(const py::module_& m) {
  const auto name = py::cast<std::string>(m.attr("__name__"));
  for (const auto& [key, member] : py::dict(m.attr("__dict__"))) {
    explain_function(member);
    if (py::isinstance<py::type>(member)) explain_class(member);
    if (py::isinstance<py::module_>(member) &&
        py::cast<std::string>(member.attr("__name__")).starts_with(name + "."))
      explain_arguments(py::reinterpret_borrow<py::module_>(member));
  }
}

}  // namespace lockstep::python
