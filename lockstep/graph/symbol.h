// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/graph/executable.h"
#include "lockstep/graph/graph.h"

namespace lockstep {

using InfoMap = std::map<std::string, TensorInfo>;
using TensorMap = std::map<std::string, Tensor>;

class BoundSymbol;

// Symbolic programming: a graph of named nodes without shapes. A symbol is a handle on one or more
// of its values; composing symbols never changes them.
class Symbol {
 public:
  // An argument of the graph. With an info, it need not be given again when binding.
  static Symbol variable(const std::string& name, std::optional<TensorInfo> info = std::nullopt);
  static Symbol constant(const Tensor& value, const std::string& name = {});
  // An op on symbols; an empty name becomes the op's name and a number. Where dtypes differ when it
  // is bound, inputs are cast as the op's function casts them. Throws NotFound for an unknown op,
  // InvalidArgument for attributes that it does not have.
  static Symbol apply(const std::string& op, const std::vector<Symbol>& inputs,
                      const std::vector<AttrField>& attrs = {}, const std::string& name = {});
  // Several symbols as one with several outputs.
  static Symbol group(const std::vector<Symbol>& symbols);
  // Keeps every input, in order; one without a name becomes "input0", "input1", ...
  static Symbol from_graph(const Graph& graph);

  // Output `index` of the op that this symbol stands for (of a group: its member).
  Symbol output(std::size_t index) const;
  const std::string& name() const;
  // In the order in which the ops need them; of a graph or its file, in the graph's order.
  std::vector<std::string> list_arguments() const;
  std::vector<std::string> list_outputs() const;

  // The same graph with arguments replaced by symbols. Throws NotFound for a name it does not have.
  Symbol compose(const std::map<std::string, Symbol>& arguments) const;

  struct Inferred {
    InfoMap arguments;
    Infos outputs;
  };
  // Throws InvalidArgument that names the argument whose shape is missing, or the op that refuses.
  Inferred infer(const InfoMap& known = {}) const;
  Graph to_graph(const InfoMap& known = {}) const;

  // Compiles for these shapes; with `gradients_of`, also the gradient of the first output (summed)
  // with respect to these arguments. Throws InvalidArgument for options with states: those are
  // for Executable::compile of to_graph().
  BoundSymbol bind(const InfoMap& known, const std::vector<std::string>& gradients_of = {},
                   const CompileOptions& options = {}) const;

  std::string to_json() const;
  // `source` begins error messages: a file's name. Throws Corrupt.
  static Symbol from_json(const std::string& text, const std::string& source = "graph");
  void save(const std::string& path) const;
  static Symbol load(const std::string& path);

  // One node of the shared graph, for readers and writers of file formats.
  struct Node;
  struct Entry {
    std::shared_ptr<const Node> node;
    std::size_t output = 0;
  };
  // Variables in `arguments` are arguments of the graph in this order, used or not.
  explicit Symbol(std::vector<Entry> entries, std::vector<Entry> arguments = {})
      : entries_(std::move(entries)), arguments_(std::move(arguments)) {}
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  // Every node, each after its inputs: arguments whose order is fixed come first.
  std::vector<std::shared_ptr<const Node>> nodes() const;

  std::vector<Entry> entries_;
  std::vector<Entry> arguments_;
};

struct Symbol::Node {
  const OpDef* op = nullptr;  // null: a variable or a constant
  Attrs attrs;
  std::vector<Entry> inputs;
  std::string name;
  std::optional<TensorInfo> info;  // a variable's, where it is known
  Tensor constant;

  ~Node();
  bool is_variable() const { return op == nullptr && !constant.defined(); }
};

// The nodes that the entries need, each after its inputs.
std::vector<std::shared_ptr<const Symbol::Node>> sorted_nodes(
    const std::vector<Symbol::Entry>& entries);

// A symbol compiled for given shapes.
class BoundSymbol {
 public:
  // Arguments in the order of the executable's inputs.
  struct Argument {
    std::string name;
    TensorInfo info;
  };
  BoundSymbol(Executable executable, std::vector<Argument> arguments, std::size_t outputs)
      : executable_(std::move(executable)), arguments_(std::move(arguments)), outputs_(outputs) {}

  struct Result {
    std::vector<Tensor> outputs;
    std::vector<Tensor> gradients;  // in the order asked for
  };
  // Throws InvalidArgument that names a missing, unknown or ill-fitting argument.
  Result run(const TensorMap& arguments);
  const Executable& executable() const { return executable_; }

 private:
  Executable executable_;
  std::vector<Argument> arguments_;
  std::size_t outputs_;
};

}  // namespace lockstep
