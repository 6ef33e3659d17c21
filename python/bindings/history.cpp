// SPDX-License-Identifier: Apache-2.0
// How recorded tensors were computed, for who writes it down in other words.
#include <functional>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/op_plan.h"
#include "bindings/python_function.h"
#include "lockstep/autograd/recorded_calls.h"
#include "lockstep/graph/recorded_function.h"

namespace lockstep::python {
namespace {

using autograd::RecordedValue;

// One list of calls of ops; a call of a compiled function is as many as its graph has.
class OpList {
 public:
  explicit OpList(const autograd::RecordedCalls& recorded) {
    for (const Tensor& tensor : recorded.variables) variables_.append(py::cast(tensor));
    for (const autograd::RecordedCall& call : recorded.calls) add(call);
    for (const RecordedValue& head : recorded.heads) heads_.append(place_of(head));
  }

  py::tuple tuple() const { return py::make_tuple(ops_, variables_, heads_); }

 private:
  py::tuple place_of(const RecordedValue& value) const {
    if (value.call < 0) return py::make_tuple(-1, value.place);
    return outputs_[static_cast<std::size_t>(value.call)](value.place);
  }

  std::int64_t push(const std::string& name, const Attrs& attrs, const py::list& inputs) {
    py::dict fields;
    if (!attrs.empty())
      for (const AttrField& field : attrs.fields())
        fields[field.name.c_str()] = from_attr(field.value);
    ops_.append(py::make_tuple(name, fields, inputs));
    return static_cast<std::int64_t>(py::len(ops_)) - 1;
  }

  std::int64_t push_function(const autograd::Function& function, const py::list& inputs) {
    const auto* own = dynamic_cast<const WrittenInPython*>(&function);
    py::dict fields;
    fields["function"] = own == nullptr ? py::none() : own->object();
    ops_.append(py::make_tuple("", fields, inputs));
    return static_cast<std::int64_t>(py::len(ops_)) - 1;
  }

  void add(const autograd::RecordedCall& call) {
    py::list inputs;
    for (const RecordedValue& input : call.inputs) inputs.append(place_of(input));
    const Graph* graph = call.function ? graph_of_call(*call.function) : nullptr;
    if (graph != nullptr) return add_graph(*graph, inputs);
    const std::int64_t number = call.op ? push(std::string(call.op->name), call.attrs, inputs)
                                        : push_function(*call.function, inputs);
    outputs_.push_back([number](std::size_t place) { return py::make_tuple(number, place); });
  }

  void add_graph(const Graph& graph, const py::list& inputs) {
    std::vector<std::int64_t> numbers;
    std::vector<py::tuple> variables;  // of a node that is none of the ops
    std::size_t next_input = 0;
    const auto place = [&](const ValueId& value) {
      const auto node = static_cast<std::size_t>(value.node);
      return numbers[node] < 0 ? variables[node] : py::make_tuple(numbers[node], value.output);
    };
    for (const Node& node : graph.nodes()) {
      numbers.push_back(-1);
      variables.emplace_back();
      if (node.is_constant()) {
        variables.back() = add_variable(node.constant);
      } else if (node.is_input()) {
        variables.back() = next_input < py::len(inputs)
                               ? py::tuple(inputs[next_input])
                               : add_variable(Tensor::zeros({3}, DType::int64));
        ++next_input;
      } else {
        py::list own;
        for (const ValueId& value : node.inputs) own.append(place(value));
        numbers.back() = push(std::string(node.op->name), node.attrs, own);
      }
    }
    std::vector<py::tuple> places;
    for (const ValueId& value : graph.outputs()) places.push_back(place(value));
    outputs_.push_back([places](std::size_t output) { return places[output]; });
  }

  py::tuple add_variable(const Tensor& value) {
    variables_.append(py::cast(value));
    return py::make_tuple(-1, py::len(variables_) - 1);
  }

  py::list ops_, variables_, heads_;
  std::vector<std::function<py::tuple(std::size_t)>> outputs_;  // of each recorded call
};

}  // namespace

void bind_history(py::module_& m) {
  m.def(
      "_history",
      [](const std::vector<Tensor>& heads) {
        return OpList(autograd::recorded_calls(heads)).tuple();
      },
      "(ops, variables, heads): each op is (name, attributes, inputs), without a name a function "
      "whose attribute `function` is Python's object of it, or None; inputs and heads are (op, "
      "output) or (-1, variable).");
}

}  // namespace lockstep::python
