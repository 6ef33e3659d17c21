// SPDX-License-Identifier: Apache-2.0
// lockstep.ops: every op of the catalogue as a Python function, made of its definition.
#include <Python.h>
#include <structmember.h>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/errors.h"
#include "bindings/op_plan.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::python {
namespace {

struct OpObject {
  PyObject_HEAD vectorcallfunc call;
  OpPlan* plan;
};

PyTypeObject* op_type = nullptr;

OpPlan& plan_of(PyObject* self) { return *reinterpret_cast<OpObject*>(self)->plan; }

PyObject* tuple_of(std::vector<Tensor> outputs) {
  if (outputs.size() == 1) return wrap(std::move(outputs[0]));
  py::tuple result(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    result[i] = py::reinterpret_steal<py::object>(wrap(std::move(outputs[i])));
  return result.release().ptr();
}

// Two tensors and the like, no keywords: nothing is looked up.
bool is_plain_call(const OpPlan& plan, PyObject* const* args, std::size_t count) {
  if (!plan.all_required || plan.draws || count != plan.required || count == 0 || count > 3 ||
      !plan.one_output)
    return false;
  for (std::size_t i = 0; i < count; ++i)
    if (!is_tensor(args[i])) return false;
  return true;
}

PyObject* plain_call(const OpPlan& plan, PyObject* const* args, std::size_t count) {
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < count; ++i) elements += tensor_of(args[i]).numel();
  Tensor made;
  {
    const Unlocked unlocked(elements >= kManyElements);
    const Tensor& a = tensor_of(args[0]);
    if (count == 1)
      made = apply_one_promoted(plan.op, {a}, plan.defaults);
    else if (count == 2)
      made = apply_one_promoted(plan.op, {a, tensor_of(args[1])}, plan.defaults);
    else
      made =
          apply_one_promoted(plan.op, {a, tensor_of(args[1]), tensor_of(args[2])}, plan.defaults);
  }
  return wrap(std::move(made));
}

bool is_list(PyObject* object) { return PyList_Check(object) || PyTuple_Check(object); }

bool equal_names(PyObject* a, PyObject* b) { return a == b || PyUnicode_Compare(a, b) == 0; }

// The arguments in their places. All references are borrowed from the caller.
class Binding {
 public:
  explicit Binding(OpPlan& plan)
      : plan_(plan), inputs_(plan.inputs.size()), attrs_(plan.attrs.size(), nullptr) {}

  void add_positional(PyObject* const* args, std::size_t count) {
    if (are_required_tensors(args, count)) return add_required(args);
    std::size_t place = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (place < inputs_.size() && is_repeated(place)) {
        i += add_repeated(place, args + i, count - i) - 1;
        ++place;
      } else {
        set(place++, args[i]);
      }
    }
  }

  void add_keyword(PyObject* name, PyObject* value) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (equal_names(plan_.inputs[i].name, name)) return set_named(i, value);
    for (std::size_t i = 0; i < attrs_.size(); ++i)
      if (is_attr(i, name)) return set(inputs_.size() + i, value);
    if (plan_.draws && PyUnicode_CompareWithASCIIString(name, "key") == 0) {
      key_ = to_tensor(value);
      return;
    }
    fail_keyword(py::cast<std::string>(py::handle(name)));
  }

  std::vector<Tensor> tensors() const {
    const Tensor* beside = first_tensor();
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].empty() && plan_.inputs[i].presence != Presence::optional)
        throw InvalidArgument("{}: input {} is missing", plan_.op.name, name(plan_.inputs[i]));
      for (PyObject* given : inputs_[i]) all.push_back(to_tensor(given, beside));
    }
    return all;
  }

  std::vector<AttrField> fields() const {
    std::vector<AttrField> list;
    for (std::size_t i = 0; i < attrs_.size(); ++i) {
      if (attrs_[i] == nullptr) continue;
      const OpParameter& attr = plan_.attrs[i];
      list.push_back({name(attr), to_attr(plan_.op, attr, attrs_[i])});
    }
    return list;
  }

  const Tensor& key() const { return key_; }

 private:
  static std::string name(const OpParameter& parameter) {
    return py::cast<std::string>(py::handle(parameter.name));
  }

  bool is_repeated(std::size_t place) const {
    return plan_.inputs[place].presence == Presence::repeated;
  }

  // "axis" is understood where the attribute is a list, "axes".
  bool is_attr(std::size_t i, PyObject* given) const {
    return equal_names(plan_.attrs[i].name, given) ||
           (PyUnicode_CompareWithASCIIString(given, "axis") == 0 &&
            PyUnicode_CompareWithASCIIString(plan_.attrs[i].name, "axes") == 0);
  }

  // Then the optional inputs are left out, wherever they stand.
  bool are_required_tensors(PyObject* const* args, std::size_t count) const {
    if (plan_.all_required || count != plan_.required) return false;
    for (std::size_t i = 0; i < count; ++i)
      if (!is_tensor(args[i])) return false;
    return true;
  }

  void add_required(PyObject* const* args) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (plan_.inputs[i].presence == Presence::required) inputs_[i].push_back(*args++);
  }

  // A list of them, or as many tensors as follow each other.
  std::size_t add_repeated(std::size_t place, PyObject* const* args, std::size_t count) {
    if (is_list(args[0])) {
      set_named(place, args[0]);
      return 1;
    }
    std::size_t taken = 0;
    while (taken < count && is_tensor(args[taken])) inputs_[place].push_back(args[taken++]);
    if (taken == 0)
      throw py::type_error(std::string(plan_.op.name) + ": expected tensors, or a list of them");
    return taken;
  }

  void set_named(std::size_t place, PyObject* value) {
    if (!is_repeated(place)) return set(place, value);
    const auto list = py::reinterpret_steal<py::object>(PySequence_Fast(value, "expected a list"));
    if (!list) throw py::error_already_set();
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.ptr()); ++i)
      inputs_[place].push_back(PySequence_Fast_GET_ITEM(list.ptr(), i));
    lists_.push_back(list);
  }

  void set(std::size_t place, PyObject* value) {
    if (place >= inputs_.size() + attrs_.size())
      throw py::type_error(std::string(plan_.op.name) + ": takes at most " +
                           std::to_string(inputs_.size() + attrs_.size()) + " arguments");
    if (value == Py_None) return;
    if (place < inputs_.size()) {
      if (!inputs_[place].empty())
        throw InvalidArgument("{}: input {} is given twice", plan_.op.name,
                              name(plan_.inputs[place]));
      inputs_[place].push_back(value);
    } else {
      PyObject*& attr = attrs_[place - inputs_.size()];
      if (attr != nullptr)
        throw InvalidArgument("{}: attribute {} is given twice", plan_.op.name,
                              name(plan_.attrs[place - inputs_.size()]));
      attr = value;
    }
  }

  // The first one's dtype is what numbers take.
  const Tensor* first_tensor() const {
    for (const auto& place : inputs_)
      for (PyObject* given : place)
        if (is_tensor(given)) return &tensor_of(given);
    return nullptr;
  }

  // Names what was meant.
  [[noreturn]] void fail_keyword(const std::string& keyword) const {
    call_op(plan_.op, {.attrs = {{keyword, false}}});
    throw InvalidArgument("{}: there is no '{}'", plan_.op.name, keyword);
  }

  OpPlan& plan_;
  std::vector<std::vector<PyObject*>> inputs_;
  std::vector<PyObject*> attrs_;
  std::vector<py::object> lists_;
  Tensor key_;
};

void add_draw(const OpPlan& plan, const Tensor& key, std::vector<Tensor>& inputs,
              std::vector<AttrField>& fields) {
  const auto place = inputs.begin() + static_cast<std::ptrdiff_t>(plan.key_place);
  if (key.defined()) {
    inputs.insert(place, key);
    return;
  }
  const RandomScope::Draw draw = RandomScope::next(std::string(plan.op.name).c_str());
  inputs.insert(place, draw.key);
  fields.push_back({"use", draw.use});
}

PyObject* run(OpPlan& plan, const Binding& binding) {
  std::vector<Tensor> inputs = binding.tensors();
  std::vector<AttrField> fields = binding.fields();
  if (plan.draws) add_draw(plan, binding.key(), inputs, fields);
  const Attrs attrs = plan.draws ? make_attrs(plan.op, fields) : plan.attrs_of(fields);
  std::int64_t elements = inputs.empty() ? kManyElements : 0;
  for (const Tensor& input : inputs) elements += input.numel();
  std::vector<Tensor> outputs;
  {
    const Unlocked unlocked(elements >= kManyElements);
    outputs = apply_promoted(plan.op, inputs, attrs);
  }
  return tuple_of(std::move(outputs));
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* keywords) {
  return guarded([&] {
    OpPlan& plan = plan_of(self);
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    if (keywords == nullptr && is_plain_call(plan, args, count))
      return plain_call(plan, args, count);
    Binding binding(plan);
    binding.add_positional(args, count);
    const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t i = 0; i < named; ++i)
      binding.add_keyword(PyTuple_GET_ITEM(keywords, i), args[count + static_cast<std::size_t>(i)]);
    return run(plan, binding);
  });
}

PyObject* bound(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject* get_name(PyObject* self, void*) {
  return guarded([&] { return py::str(std::string(plan_of(self).op.name)).release().ptr(); });
}
PyObject* get_module(PyObject*, void*) { return PyUnicode_FromString("lockstep.ops"); }
PyObject* get_doc(PyObject* self, void*) {
  return guarded([&] { return py::str(doc_of(plan_of(self))).release().ptr(); });
}
PyObject* get_signature(PyObject* self, void*) {
  return guarded([&] {
    const py::object module = py::module_::import("lockstep._signature");
    return py::object(module.attr("signature_of")(py::handle(self))).release().ptr();
  });
}
PyObject* repr(PyObject* self) {
  return guarded(
      [&] { return py::str("<op " + std::string(plan_of(self).op.name) + ">").release().ptr(); });
}
PyObject* reduce(PyObject* self, PyObject*) { return get_name(self, nullptr); }

// What signatures and stubs are made of: (name, presence, type, default, text) of each parameter.
PyObject* parameters(PyObject* self, PyObject*) {
  return guarded([&] {
    static const char* presences[] = {"required", "optional", "repeated"};
    const OpPlan& plan = plan_of(self);
    py::list list;
    for (const OpParameter& input : plan.inputs)
      list.append(py::make_tuple(py::handle(input.name),
                                 presences[static_cast<int>(input.presence)], "tensor", py::none(),
                                 input.text));
    for (const OpParameter& attr : plan.attrs)
      list.append(py::make_tuple(py::handle(attr.name), "attribute",
                                 std::string(type_name(attr.default_value)),
                                 from_attr(attr.default_value), attr.text));
    if (plan.draws) list.append(py::make_tuple("key", "key", "tensor", py::none(), "random_key()"));
    return list.release().ptr();
  });
}

PyObject* outputs(PyObject* self, PyObject*) {
  return guarded([&] {
    py::list list;
    for (const ArgumentDoc& output : plan_of(self).op.docs.outputs)
      list.append(py::make_tuple(std::string(output.name), output.presence == Presence::required,
                                 output.presence == Presence::repeated));
    return list.release().ptr();
  });
}

PyGetSetDef properties[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                            {"__qualname__", get_name, nullptr, nullptr, nullptr},
                            {"__module__", get_module, nullptr, nullptr, nullptr},
                            {"__doc__", get_doc, nullptr, nullptr, nullptr},
                            {"__signature__", get_signature, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"_parameters", parameters, METH_NOARGS, nullptr},
                         {"_outputs", outputs, METH_NOARGS, nullptr},
                         {"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

void make_op_type() {
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
                         {Py_tp_getset, properties},
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {0, nullptr}};
  PyType_Spec spec = {"lockstep.ops.Op", sizeof(OpObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                          Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  op_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (op_type == nullptr) throw py::error_already_set();
}

py::object make_op(const OpDef& op) {
  PyObject* object = op_type->tp_alloc(op_type, 0);
  if (object == nullptr) throw py::error_already_set();
  auto* made = reinterpret_cast<OpObject*>(object);
  made->call = call;
  made->plan = new OpPlan(op);  // as long as the program
  return py::reinterpret_steal<py::object>(object);
}

}  // namespace

void bind_ops(py::module_& m) {
  make_op_type();
  py::dict families;
  for (const OpFamily& family : op_families()) {
    py::list ops;
    for (const OpDef* op : family.ops) ops.append(make_op(*op));
    families[py::str(std::string(family.name))] = ops;
  }
  m.attr("_op_families") = families;
}

}  // namespace lockstep::python
