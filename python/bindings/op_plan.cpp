// SPDX-License-Identifier: Apache-2.0
#include "bindings/op_plan.h"

#include "bindings/casters.h"

namespace lockstep::python {
namespace {

PyObject* interned(std::string_view name) {
  PyObject* text = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  if (text == nullptr) throw py::error_already_set();
  PyUnicode_InternInPlace(&text);
  return text;
}

bool is_key(const OpDef& op, std::string_view input) {
  return input == "key" && op.schema.docs != nullptr;
}

std::int64_t to_int(PyObject* value) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (!index) throw py::error_already_set();
  return py::cast<std::int64_t>(index);
}

AttrValue convert(const AttrValue& like, PyObject* value) {
  if (std::holds_alternative<bool>(like)) {
    const int truth = PyObject_IsTrue(value);
    if (truth < 0) throw py::error_already_set();
    return truth != 0;
  }
  if (std::holds_alternative<std::int64_t>(like)) return to_int(value);
  if (std::holds_alternative<double>(like)) {
    const double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return number;
  }
  if (std::holds_alternative<std::string>(like)) return py::cast<std::string>(py::handle(value));
  if (std::holds_alternative<Ints>(like)) return to_ints(value);
  if (std::holds_alternative<DType>(like)) return to_dtype(value);
  return to_device(value);
}

std::string line_about(std::string_view name, std::string_view text) {
  return "    " + std::string(name) + ": " + std::string(text) + "\n";
}

}  // namespace

OpPlan::OpPlan(const OpDef& definition) : op(definition) {
  for (std::size_t i = 0; i < op.docs.inputs.size(); ++i) {
    const ArgumentDoc& input = op.docs.inputs[i];
    if (is_key(op, input.name)) {
      draws = true;
      key_place = i;
      continue;
    }
    inputs.push_back({interned(input.name), std::string(input.text), input.presence, {}});
    if (input.presence == Presence::required) ++required;
    all_required = all_required && input.presence == Presence::required;
  }
  if (op.schema.docs != nullptr)
    for (const AttrDoc& attr : op.schema.docs())
      attrs.push_back(
          {interned(attr.name), std::string(attr.text), Presence::optional, attr.default_value});
  one_output = op.docs.outputs.size() == 1 && op.docs.outputs[0].presence == Presence::required;
  defaults = make_attrs(op, {});
}

const Attrs& OpPlan::attrs_of(const std::vector<AttrField>& fields) {
  if (fields.empty()) return defaults;
  for (const Recent& known : recent_)
    if (known.fields == fields) return known.attrs;
  Recent& place = recent_[next_++ % recent_.size()];
  Attrs made = make_attrs(op, fields);
  place = {fields, std::move(made)};
  return place.attrs;
}

AttrValue to_attr(const OpDef& op, const OpParameter& parameter, PyObject* value) {
  try {
    return convert(parameter.default_value, value);
  } catch (py::error_already_set&) {
  } catch (const py::builtin_exception&) {
  }
  PyErr_Clear();
  const std::string name = py::cast<std::string>(py::handle(parameter.name));
  throw py::type_error(std::string(op.name) + ": " + name + " must be " +
                       std::string(type_name(parameter.default_value)) + ", got " +
                       py::cast<std::string>(py::repr(py::handle(value))));
}

py::object from_attr(const AttrValue& value) {
  return std::visit([](const auto& held) -> py::object { return py::cast(held); }, value);
}

std::string doc_of(const OpPlan& plan) {
  std::string text = std::string(plan.op.docs.summary) + "\n\n";
  if (!plan.inputs.empty() || !plan.attrs.empty()) text += "Arguments:\n";
  for (const OpParameter& input : plan.inputs)
    text += line_about(py::cast<std::string>(py::handle(input.name)), input.text);
  for (const OpParameter& attr : plan.attrs)
    text += line_about(py::cast<std::string>(py::handle(attr.name)),
                       attr.text + " (" + to_string(attr.default_value) + ")");
  text += "Returns:\n";
  for (const ArgumentDoc& output : plan.op.docs.outputs)
    text += line_about(output.name, output.text);
  const std::string_view casts = describe(plan.op.promotion);
  if (!casts.empty()) text += "The " + std::string(casts) + ".\n";
  return text;
}

}  // namespace lockstep::python
