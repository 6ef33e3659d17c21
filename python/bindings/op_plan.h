// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep::python {

namespace py = pybind11;

// A parameter of the Python function: an input of the op, or an attribute.
struct OpParameter {
  PyObject* name;  // interned, for ever
  std::string text;
  Presence presence = Presence::required;
  AttrValue default_value = {};
};

// How Python calls an op, made of its definition once. Inputs come first, then attributes. An op
// that draws has its key and its use number last, and takes them from the RandomScope when they
// are not given.
struct OpPlan {
  explicit OpPlan(const OpDef& definition);

  const OpDef& op;
  std::vector<OpParameter> inputs;
  std::vector<OpParameter> attrs;
  std::size_t required = 0;
  bool draws = false;         // the op's inputs have a key
  std::size_t key_place = 0;  // among the op's inputs
  bool all_required = true;   // no input is optional or repeated
  bool one_output = false;
  Attrs defaults;

  // Attributes that were asked for lately are not made again.
  const Attrs& attrs_of(const std::vector<AttrField>& fields);

 private:
  struct Recent {
    std::vector<AttrField> fields;
    Attrs attrs;
  };
  std::array<Recent, 4> recent_;
  std::size_t next_ = 0;
};

// The Python value in the type that the attribute has. Throws TypeError that begins with the op.
AttrValue to_attr(const OpDef& op, const OpParameter& parameter, PyObject* value);
py::object from_attr(const AttrValue& value);

// What help() shows.
std::string doc_of(const OpPlan& plan);

}  // namespace lockstep::python
