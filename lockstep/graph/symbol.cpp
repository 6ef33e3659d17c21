// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/symbol.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/file.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise_attrs.h"

namespace lockstep {
namespace {

using SymbolNode = Symbol::Node;
using Entry = Symbol::Entry;
using NodePtr = std::shared_ptr<const SymbolNode>;

const Entry& single(const Symbol& symbol, std::string_view op) {
  if (symbol.entries().size() != 1)
    throw InvalidArgument("{}: an input is a group of {} symbols, expected one", op,
                          symbol.entries().size());
  return symbol.entries()[0];
}

Symbol symbol_of(SymbolNode node) {
  return Symbol({{std::make_shared<const SymbolNode>(std::move(node)), 0}});
}

const TensorInfo& info_for(const SymbolNode& node, const InfoMap& known) {
  const auto given = known.find(node.name);
  if (given != known.end()) return given->second;
  if (!node.info)
    throw InvalidArgument("symbol: argument '{}' has no shape; give it when binding", node.name);
  return *node.info;
}

void check_output(const SymbolNode& node, std::size_t output, std::size_t count) {
  if (output >= count)
    throw InvalidArgument("symbol: '{}' has {} outputs, output {} is used", node.name, count,
                          output);
}

// The inputs, cast where the op's rule says so: what the op's function does with tensors.
std::vector<ValueId> promoted(Graph& graph, const OpDef& op, std::vector<ValueId> inputs) {
  std::vector<DType> dtypes;
  for (ValueId input : inputs) dtypes.push_back(graph.info(input).dtype);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = promoted_dtype(op.promotion, dtypes, i);
    if (dtype == dtypes[i]) continue;
    inputs[i] = graph.add_node(get_op("cast"), {inputs[i]}, Attrs::of(CastAttrs{dtype}), "");
  }
  return inputs;
}

// How many bytes the UTF-8 character at the beginning of `text` has; 0: it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and what is above U+10FFFF.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)) return 0;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return 0;
  return length;
}

// Graph files are JSON, which has nothing but UTF-8.
void check_text(const std::string& text, const char* what) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(at));
    if (length == 0)
      throw InvalidArgument("symbol: {} has the byte 0x{:02x} at {}, which is not UTF-8", what,
                            static_cast<unsigned char>(text[at]), at);
    at += length;
  }
}

void check_name(const std::string& name) { check_text(name, "a name"); }

void check_attrs(const std::vector<AttrField>& attrs) {
  for (const AttrField& field : attrs)
    if (const auto* text = std::get_if<std::string>(&field.value))
      check_text(*text, "an attribute");
}

// The first "input0", "input1", ... from `place` on that is free.
std::string free_name(std::size_t place, std::unordered_set<std::string>& taken) {
  std::string name = fmt::format("input{}", place);
  while (!taken.insert(name).second) name = fmt::format("input{}", ++place);
  return name;
}

// Names of the graph's nodes, with one for every input.
std::vector<std::string> node_names(const Graph& graph) {
  std::unordered_set<std::string> taken;
  std::vector<std::string> names;
  for (const lockstep::Node& node : graph.nodes()) {
    check_name(node.name);
    taken.insert(node.name);
    names.push_back(node.name);
  }
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    std::string& name = names[static_cast<std::size_t>(graph.inputs()[i].node)];
    if (name.empty()) name = free_name(i, taken);
  }
  return names;
}

// Unnamed nodes get "op0", "op1", ... by their place in the graph.
std::string name_or_default(const SymbolNode& node, std::size_t place) {
  if (!node.name.empty()) return node.name;
  return fmt::format("{}{}", node.op ? node.op->name : std::string_view("constant"), place);
}

void check_fits(const BoundSymbol::Argument& argument, const Tensor& value) {
  if (!value.defined() || !(value.info() == argument.info))
    throw InvalidArgument("symbol: argument '{}' is {}, bound as {}", argument.name,
                          value.defined() ? value.info().str() : "undefined", argument.info.str());
  if (value.is_symbolic())
    throw InvalidArgument("symbol: argument '{}' has no data: it stands for a graph value",
                          argument.name);
}

}  // namespace

// A chain of a hundred thousand nodes would overflow the stack if each destroyed its inputs.
Symbol::Node::~Node() {
  std::vector<Entry> pending = std::move(inputs);
  while (!pending.empty()) {
    const Entry entry = std::move(pending.back());
    pending.pop_back();
    if (!entry.node || entry.node.use_count() > 1) continue;
    auto& last = const_cast<SymbolNode&>(*entry.node);
    for (Entry& input : last.inputs) pending.push_back(std::move(input));
    last.inputs.clear();
  }
}

std::vector<NodePtr> sorted_nodes(const std::vector<Entry>& entries) {
  std::vector<NodePtr> order;
  std::unordered_set<const SymbolNode*> done;
  struct Visit {
    NodePtr node;
    std::size_t next = 0;
  };
  for (const Entry& entry : entries) {
    std::vector<Visit> stack;
    if (done.insert(entry.node.get()).second) stack.push_back({entry.node});
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next == top.node->inputs.size()) {
        order.push_back(top.node);
        stack.pop_back();
        continue;
      }
      const NodePtr& input = top.node->inputs[top.next++].node;
      if (done.insert(input.get()).second) stack.push_back({input});
    }
  }
  return order;
}

Symbol Symbol::variable(const std::string& name, std::optional<TensorInfo> info) {
  if (name.empty()) throw InvalidArgument("symbol: a variable needs a name");
  check_name(name);
  return symbol_of(
      {.op = nullptr, .attrs = {}, .inputs = {}, .name = name, .info = info, .constant = {}});
}

Symbol Symbol::constant(const Tensor& value, const std::string& name) {
  if (!value.defined() || value.is_symbolic())
    throw InvalidArgument("symbol: a constant needs contents");
  check_name(name);
  return symbol_of({.op = nullptr,
                    .attrs = {},
                    .inputs = {},
                    .name = name,
                    .info = value.info(),
                    .constant = value.detach()});
}

Symbol Symbol::apply(const std::string& op, const std::vector<Symbol>& inputs,
                     const std::vector<AttrField>& attrs, const std::string& name) {
  const OpDef& def = get_op(op);
  check_name(name);
  check_attrs(attrs);
  SymbolNode node;
  node.op = &def;
  node.name = name;
  node.attrs = make_attrs(def, attrs);
  check_input_count(def, inputs.size());
  for (const Symbol& input : inputs) node.inputs.push_back(single(input, op));
  return symbol_of(std::move(node));
}

Symbol Symbol::group(const std::vector<Symbol>& symbols) {
  std::vector<Entry> entries;
  std::vector<Entry> arguments;
  std::unordered_set<const SymbolNode*> known;
  for (const Symbol& symbol : symbols) {
    entries.insert(entries.end(), symbol.entries_.begin(), symbol.entries_.end());
    for (const Entry& argument : symbol.arguments_)
      if (known.insert(argument.node.get()).second) arguments.push_back(argument);
  }
  if (entries.empty()) throw InvalidArgument("symbol: an empty group");
  return Symbol(std::move(entries), std::move(arguments));
}

Symbol Symbol::from_graph(const Graph& graph) {
  const std::vector<std::string> names = node_names(graph);
  std::vector<NodePtr> nodes;
  const auto entry = [&](ValueId v) {
    return Entry{nodes[static_cast<std::size_t>(v.node)], static_cast<std::size_t>(v.output)};
  };
  for (const lockstep::Node& source : graph.nodes()) {
    SymbolNode node;
    node.op = source.op;
    node.attrs = source.attrs;
    node.name = names[nodes.size()];
    node.constant = source.constant;
    if (source.op == nullptr) node.info = source.outputs[0];
    for (ValueId input : source.inputs) node.inputs.push_back(entry(input));
    nodes.push_back(std::make_shared<const SymbolNode>(std::move(node)));
  }
  std::vector<Entry> outputs;
  for (ValueId output : graph.outputs()) outputs.push_back(entry(output));
  std::vector<Entry> arguments;
  for (ValueId input : graph.inputs()) arguments.push_back(entry(input));
  return Symbol(std::move(outputs), std::move(arguments));
}

std::vector<NodePtr> Symbol::nodes() const {
  std::vector<Entry> roots = arguments_;
  roots.insert(roots.end(), entries_.begin(), entries_.end());
  return sorted_nodes(roots);
}

Symbol Symbol::output(std::size_t index) const {
  if (entries_.size() > 1) {
    if (index >= entries_.size())
      throw InvalidArgument("symbol: the group has {} outputs, asked for {}", entries_.size(),
                            index);
    return Symbol({entries_[index]});
  }
  return Symbol({{entries_[0].node, index}});
}

const std::string& Symbol::name() const { return entries_[0].node->name; }

std::vector<std::string> Symbol::list_arguments() const {
  std::vector<std::string> names;
  for (const NodePtr& node : nodes())
    if (node->is_variable()) names.push_back(node->name);
  return names;
}

std::vector<std::string> Symbol::list_outputs() const {
  std::unordered_map<const SymbolNode*, std::size_t> places;
  for (const NodePtr& node : nodes()) places.emplace(node.get(), places.size());
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    std::string name = name_or_default(*entry.node, places.at(entry.node.get())) + "_output";
    if (entry.output > 0) name += std::to_string(entry.output);
    names.push_back(std::move(name));
  }
  return names;
}

Symbol Symbol::compose(const std::map<std::string, Symbol>& arguments) const {
  const std::vector<std::string> known = list_arguments();
  for (const auto& [name, symbol] : arguments)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw NotFound("symbol: there is no argument '{}'", name);
  std::unordered_map<const SymbolNode*, Entry> replaced;
  const auto now = [&](const Entry& old) {
    const Entry& fresh = replaced.at(old.node.get());
    return Entry{fresh.node, old.node->is_variable() ? fresh.output : old.output};
  };
  for (const NodePtr& node : nodes()) {
    const auto given = node->is_variable() ? arguments.find(node->name) : arguments.end();
    if (given != arguments.end()) {
      replaced[node.get()] = single(given->second, "compose");
      continue;
    }
    SymbolNode copy;
    copy.op = node->op;
    copy.attrs = node->attrs;
    copy.name = node->name;
    copy.info = node->info;
    copy.constant = node->constant;
    for (const Entry& input : node->inputs) copy.inputs.push_back(now(input));
    replaced[node.get()] = {std::make_shared<const SymbolNode>(std::move(copy)), 0};
  }
  std::vector<Entry> outputs;
  for (const Entry& entry : entries_) outputs.push_back(now(entry));
  std::vector<Entry> left;
  for (const Entry& argument : arguments_)
    if (!arguments.contains(argument.node->name)) left.push_back(now(argument));
  return Symbol(std::move(outputs), std::move(left));
}

Graph Symbol::to_graph(const InfoMap& known) const {
  Graph graph;
  std::unordered_map<const SymbolNode*, ValueId> ids;
  std::unordered_set<std::string> variables;
  const auto value = [&](const Entry& entry) {
    const ValueId first = ids.at(entry.node.get());
    check_output(*entry.node, entry.output, graph.node(first).outputs.size());
    return ValueId{first.node, static_cast<std::int32_t>(entry.output)};
  };
  for (const NodePtr& node : nodes()) {
    if (node->is_variable()) {
      if (!variables.insert(node->name).second)
        throw InvalidArgument("symbol: two different arguments are called '{}'", node->name);
      ids[node.get()] = graph.add_input(info_for(*node, known), node->name);
    } else if (node->op == nullptr) {
      ids[node.get()] = graph.add_constant(node->constant, node->name);
    } else {
      std::vector<ValueId> inputs;
      for (const Entry& input : node->inputs) inputs.push_back(value(input));
      inputs = promoted(graph, *node->op, std::move(inputs));
      ids[node.get()] = graph.add_node(*node->op, std::move(inputs), node->attrs, node->name);
    }
  }
  for (const auto& [name, info] : known)
    if (!variables.contains(name)) throw NotFound("symbol: there is no argument '{}'", name);
  const std::vector<std::string> names = list_outputs();
  for (std::size_t i = 0; i < entries_.size(); ++i) graph.add_output(value(entries_[i]), names[i]);
  return graph;
}

Symbol::Inferred Symbol::infer(const InfoMap& known) const {
  const Graph graph = to_graph(known);
  Inferred inferred;
  for (ValueId input : graph.inputs())
    inferred.arguments.emplace(graph.node(input).name, graph.info(input));
  for (ValueId output : graph.outputs()) inferred.outputs.push_back(graph.info(output));
  return inferred;
}

BoundSymbol Symbol::bind(const InfoMap& known, const std::vector<std::string>& gradients_of,
                         const CompileOptions& options) const {
  if (!options.states.empty() || !options.carries.empty())
    throw InvalidArgument(
        "symbol: a bound symbol has no states, got {} states and {} carries; compile to_graph() "
        "for those",
        options.states.size(), options.carries.size());
  Graph graph = to_graph(known);
  const std::vector<std::string> arguments = list_arguments();
  std::vector<std::size_t> wrt;
  for (const std::string& name : gradients_of) {
    const auto found = std::find(arguments.begin(), arguments.end(), name);
    if (found == arguments.end()) throw NotFound("symbol: there is no argument '{}'", name);
    wrt.push_back(static_cast<std::size_t>(found - arguments.begin()));
  }
  std::vector<BoundSymbol::Argument> bound;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    bound.push_back({arguments[i], graph.info(graph.inputs()[i])});
  const std::size_t outputs = graph.outputs().size();
  if (!wrt.empty()) graph = differentiate(graph, 0, wrt);
  return BoundSymbol(Executable::compile(graph, options), std::move(bound), outputs);
}

BoundSymbol::Result BoundSymbol::run(const TensorMap& arguments) {
  std::vector<Tensor> inputs;
  for (const Argument& argument : arguments_) {
    const auto given = arguments.find(argument.name);
    if (given == arguments.end())
      throw InvalidArgument("symbol: argument '{}' was not given", argument.name);
    check_fits(argument, given->second);
    inputs.push_back(given->second);
  }
  for (const auto& [name, value] : arguments)
    if (std::none_of(arguments_.begin(), arguments_.end(),
                     [&](const Argument& argument) { return argument.name == name; }))
      throw InvalidArgument("symbol: there is no argument '{}'", name);
  std::vector<Tensor> all = executable_.run(inputs);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(outputs_);
  return {{all.begin(), middle}, {middle, all.end()}};
}

void Symbol::save(const std::string& path) const { write_file(path, to_json()); }

Symbol Symbol::load(const std::string& path) { return from_json(read_file(path), path); }

}  // namespace lockstep
