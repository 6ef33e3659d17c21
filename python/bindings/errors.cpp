// SPDX-License-Identifier: Apache-2.0
#include "bindings/errors.h"

#include <new>
#include <string>

#include "bindings/bindings.h"
#include "lockstep/comm/errors.h"

namespace lockstep::python {
namespace {

// lockstep/errors.py has the classes, by the kinds' names.
py::object error_class(const char* kind) {
  const py::module_ errors = py::module_::import("lockstep.errors");
  if (py::hasattr(errors, kind)) return errors.attr(kind);
  return errors.attr("Error");
}

// NumPy's numbers are float64 unless told otherwise, and most nets are float32.
std::string with_remedy(std::string message) {
  if (message.find(" is float64") != std::string::npos &&
      message.find("float32") != std::string::npos)
    message += "; x.astype(\"float32\") converts an array";
  return message;
}

void set_engine_error(const Error& error) {
  py::object value = error_class(error.kind())(with_remedy(error.what()));
  if (const auto* between = dynamic_cast<const comm::CommError*>(&error)) {
    value.attr("rank") = between->rank();
    value.attr("host") = between->host();
    value.attr("operation") = between->operation();
  }
  PyErr_SetObject(py::type::of(value).ptr(), value.ptr());
}

py::object cast_message(const py::cast_error& error) {
  return py::module_::import("lockstep._arguments")
      .attr("explain_cast")("", "lockstep", error.what());
}

}  // namespace

void set_python_error() noexcept {
  try {
    try {
      throw;
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (const py::cast_error& error) {
      PyErr_SetObject(PyExc_TypeError, cast_message(error).ptr());
    } catch (const py::builtin_exception& error) {
      error.set_error();
    } catch (const Error& error) {
      set_engine_error(error);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      PyErr_SetString(error_class("InternalError").ptr(), error.what());
    }
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "lockstep: an error without a description");
  }
}

void bind_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_engine_error(error);
    } catch (const InternalError& error) {
      PyErr_SetString(error_class("InternalError").ptr(), error.what());
    }
  });
}

}  // namespace lockstep::python
