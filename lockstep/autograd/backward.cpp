// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/autograd/backward_observer.h"
#include "lockstep/autograd/detail/tape.h"
#include "lockstep/autograd/forgetting.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep::autograd {
namespace {

// The place of one gradient: an output of a node, or a leaf.
struct Place {
  const void* owner;
  std::size_t output;
  bool operator==(const Place&) const = default;
};

struct PlaceHash {
  std::size_t operator()(const Place& place) const {
    return std::hash<const void*>{}(place.owner) * 31 + place.output;
  }
};

Place place_of(const Edge& edge) {
  if (edge->node) return {edge->node.get(), edge->output};
  return {edge.get(), 0};
}

Tensor filled_like(const Tensor& x, double value) {
  if (x.is_symbolic()) return value == 0.0 ? zeros_like(x) : ones_like(x);
  return Tensor::full(x.shape(), value, x.dtype(), x.device());
}

void check_heads(const char* who, std::span<const Tensor> heads,
                 std::span<const Tensor> head_grads) {
  if (heads.empty()) throw InvalidArgument("{}: there is no head", who);
  if (!head_grads.empty() && head_grads.size() != heads.size())
    throw InvalidArgument("{}: {} heads with {} head gradients", who, heads.size(),
                          head_grads.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (!heads[i].defined()) throw InvalidArgument("{}: head {} is undefined", who, i);
    if (!requires_grad(heads[i]))
      throw InvalidArgument("{}: head {} ({}) was not recorded", who, i, heads[i].info().str());
    if (head_grads.empty() || !head_grads[i].defined()) continue;
    const TensorInfo& got = head_grads[i].info();
    if (!(got == heads[i].info()))
      throw InvalidArgument("{}: the gradient of head {} is {}, the head is {}", who, i, got.str(),
                            heads[i].info().str());
  }
}

struct Options {
  const char* who;
  bool create_graph = false;
  bool retain = false;
  bool stop_at_variables = false;  // what lies behind the variables is not looked at
  bool forget = false;             // what is freed is constant from then on
};

// One walk from heads to leaves. Nodes are visited in the reverse order of their recording, which
// is a reverse topological order, so that sums of gradients have one order, too.
class Walk {
 public:
  Walk(const Options& options, std::span<const Edge> variables) : options_(options) {
    for (const Edge& variable : variables) variables_.insert(place_of(variable));
    all_ = variables.empty();
  }

  void run(std::span<const Tensor> heads, std::span<const Tensor> head_grads) {
    for (const Tensor& head : heads) find_nodes(head.tape_entry());
    find_flat_leaves();
    std::stable_sort(nodes_.begin(), nodes_.end(),
                     [](const auto& a, const auto& b) { return a->id() < b->id(); });
    for (const auto& node : nodes_)
      if (leads_on(*node)) useful_.insert(node.get());
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const bool given = !head_grads.empty() && head_grads[i].defined();
      deposit(heads[i].tape_entry(), given ? head_grads[i] : filled_like(heads[i], 1.0));
    }
    while (!nodes_.empty()) {
      visit(nodes_.back());
      nodes_.pop_back();
    }
  }

  // Undefined where nothing arrived.
  Tensor take(const Edge& edge) {
    const auto found = gradients_.find(place_of(edge));
    if (found == gradients_.end()) return {};
    Tensor gradient = std::move(found->second);
    gradients_.erase(found);
    return gradient;
  }
  Tensor at(const Edge& edge) const {
    const auto found = gradients_.find(place_of(edge));
    return found == gradients_.end() ? Tensor() : found->second;
  }

  // In the order in which they were found.
  const std::vector<Edge>& leaves() const { return leaves_; }

 private:
  bool is_variable(const Place& place) const { return variables_.count(place) > 0; }

  bool wanted(const Edge& edge) const {
    if (edge == nullptr || edge->flat) return false;
    return all_ || is_variable(place_of(edge)) ||
           (edge->node && useful_.count(edge->node.get()) > 0);
  }

  bool leads_on(const TapeNode& node) const {
    if (stops(node)) return false;
    const auto& edges = node.record().edges;
    return std::any_of(edges.begin(), edges.end(), [&](const Edge& e) { return wanted(e); });
  }

  bool stops(const TapeNode& node) const {
    return options_.stop_at_variables && is_variable({&node, 0});
  }

  void find_nodes(const Edge& head) {
    std::vector<Edge> stack{head};
    while (!stack.empty()) {
      const Edge edge = std::move(stack.back());
      stack.pop_back();
      const void* owner = place_of(edge).owner;
      if (!seen_.insert(owner).second) continue;
      if (!edge->node) {
        leaves_.push_back(edge);
        continue;
      }
      if (edge->node->is_freed())
        throw InvalidArgument(
            "{}: the record of '{}' was freed by an earlier backward (retain it to go back twice)",
            options_.who, edge->node->name());
      nodes_.push_back(edge->node);
      if (stops(*edge->node)) continue;
      const TapeRecord& record = edge->node->record();
      for (auto e = record.edges.rbegin(); e != record.edges.rend(); ++e)
        if (*e != nullptr) (record.flat || (*e)->flat ? flat_ : stack).push_back(*e);
    }
  }

  // Leaves that only step functions lead to: nothing arrives there, which is a gradient of zeros.
  // What an earlier backward freed has had its own.
  void find_flat_leaves() {
    while (!flat_.empty()) {
      const Edge edge = std::move(flat_.back());
      flat_.pop_back();
      if (edge->node && (edge->node->is_freed() || stops(*edge->node))) continue;
      if (!seen_.insert(place_of(edge).owner).second) continue;
      if (!edge->node) {
        leaves_.push_back(edge);
        continue;
      }
      for (const Edge& e : edge->node->record().edges)
        if (e != nullptr) flat_.push_back(e);
    }
  }

  void deposit(const Edge& edge, const Tensor& gradient) {
    Tensor& sum = gradients_[place_of(edge)];
    sum = sum.defined() ? add(sum, gradient) : gradient;
  }

  void visit(const std::shared_ptr<TapeNode>& node) {
    std::vector<Tensor> output_grads(node->output_count());
    bool any = false;
    for (std::size_t i = 0; i < output_grads.size(); ++i) {
      output_grads[i] = gradient_of_output({node.get(), i});
      any = any || output_grads[i].defined();
    }
    if (any && useful_.count(node.get()) > 0) send_back(node, output_grads);
    if (options_.retain) return;
    options_.forget ? node->forget() : node->free();
  }

  Tensor gradient_of_output(const Place& place) {
    const auto found = gradients_.find(place);
    if (found == gradients_.end()) return {};
    if (is_variable(place)) return found->second;
    Tensor gradient = std::move(found->second);
    gradients_.erase(found);
    return gradient;
  }

  void send_back(const std::shared_ptr<TapeNode>& node, const std::vector<Tensor>& output_grads) {
    const TapeRecord& record = node->record();
    if (record.flat) return;
    if (BackwardObserver* observer = BackwardObserver::current())
      observer->go_back_through(record.outputs);
    std::vector<Tensor> grads = input_gradients(node, output_grads);
    if (grads.size() != record.inputs.size())
      throw InvalidArgument("{}: the gradient has {} parts, there are {} inputs", node->name(),
                            grads.size(), record.inputs.size());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!wanted(record.edges[i]) || !grads[i].defined()) continue;
      if (!(grads[i].info() == record.inputs[i].info()))
        throw InvalidArgument("{}: the gradient of input {} is {}, the input is {}", node->name(),
                              i, grads[i].info().str(), record.inputs[i].info().str());
      deposit(record.edges[i], grads[i]);
      grads[i] = Tensor();
    }
  }

  std::vector<Tensor> input_gradients(const std::shared_ptr<TapeNode>& node,
                                      const std::vector<Tensor>& output_grads) {
    const TapeRecord& record = node->record();
    if (record.function) return record.function->backward(all_defined(record, output_grads));
    if (record.op == nullptr) return output_grads;
    const std::vector<Tensor> inputs = with_history(record);
    const auto needs = std::make_unique<bool[]>(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) needs[i] = wanted(record.edges[i]);
    if (record.op->gradient == nullptr) return through_decomposition(record, inputs, output_grads);
    const std::vector<Tensor> outputs = outputs_of(node);
    return record.op->gradient({record.attrs, inputs, outputs, output_grads,
                                std::span<const bool>(needs.get(), inputs.size())});
  }

  static std::vector<Tensor> all_defined(const TapeRecord& record, std::vector<Tensor> grads) {
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (!grads[i].defined()) grads[i] = filled_like(record.outputs[i], 0.0);
    return grads;
  }

  // The inputs as they were recorded: a handle may have become a leaf since.
  std::vector<Tensor> with_history(const TapeRecord& record) const {
    std::vector<Tensor> inputs = record.inputs;
    for (std::size_t i = 0; i < inputs.size() && options_.create_graph; ++i) {
      if (inputs[i].tape_entry() == record.edges[i]) continue;
      inputs[i] = without_entry(inputs[i]);
      inputs[i].set_tape_entry(record.edges[i]);
    }
    return inputs;
  }

  std::vector<Tensor> outputs_of(const std::shared_ptr<TapeNode>& node) const {
    std::vector<Tensor> outputs = node->record().outputs;
    for (std::size_t i = 0; i < outputs.size() && options_.create_graph; ++i) {
      outputs[i] = without_entry(outputs[i]);
      if (is_floating(outputs[i].dtype()))
        outputs[i].set_tape_entry(
            std::make_shared<TapeEntry>(TapeEntry{.node = node, .output = i}));
    }
    return outputs;
  }

  // Records the decomposition on aliases of the inputs, then goes back through it to the aliases
  // and no further. What it computes on the way hangs on the inputs, so it has gradients itself.
  std::vector<Tensor> through_decomposition(const TapeRecord& record,
                                            const std::vector<Tensor>& inputs,
                                            const std::vector<Tensor>& output_grads) {
    std::vector<Tensor> aliases = inputs;
    std::vector<Edge> variables;
    for (std::size_t i = 0; i < aliases.size(); ++i) {
      aliases[i] = wanted(record.edges[i]) ? alias(inputs[i]) : without_entry(inputs[i]);
      if (aliases[i].tape_entry()) variables.push_back(aliases[i].tape_entry());
    }
    std::vector<Tensor> heads;
    std::vector<Tensor> head_grads;
    const std::vector<Tensor> outputs = decompose(record, aliases);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!output_grads[i].defined() || !requires_grad(outputs[i])) continue;
      heads.push_back(outputs[i]);
      head_grads.push_back(output_grads[i]);
    }
    Walk walk({.who = options_.who,
               .create_graph = options_.create_graph,
               .retain = options_.create_graph,
               .stop_at_variables = true},
              variables);
    walk.run(heads, head_grads);
    std::vector<Tensor> grads(inputs.size());
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (aliases[i].tape_entry()) grads[i] = walk.at(aliases[i].tape_entry());
    return grads;
  }

  static std::vector<Tensor> decompose(const TapeRecord& record,
                                       const std::vector<Tensor>& inputs) {
    RecordScope recording(is_training());
    return record.op->decompose(inputs, record.attrs);
  }

  Options options_;
  bool all_ = true;  // every leaf is wanted
  std::unordered_set<Place, PlaceHash> variables_;
  std::unordered_set<const void*> seen_;
  std::unordered_set<const void*> useful_;
  std::vector<std::shared_ptr<TapeNode>> nodes_;
  std::vector<Edge> leaves_;
  std::vector<Edge> flat_;  // behind step functions, to be looked through
  std::unordered_map<Place, Tensor, PlaceHash> gradients_;
};

// A leaf's gradient is memory of its own, since users change it in place.
Tensor owned(Tensor gradient) {
  if (gradient.is_symbolic()) return gradient;
  return gradient.is_contiguous() && gradient.is_sole_owner() ? gradient : gradient.copy();
}

Tensor zeros_of(const TapeLeaf& leaf) {
  const auto& [info, symbolic] = leaf;
  return symbolic ? zeros(info.shape, info.dtype, info.device)
                  : Tensor::zeros(info.shape, info.dtype, info.device);
}

// Where nothing arrived `gradient` is undefined.
void store(TapeEntry& leaf, Tensor gradient) {
  if (!gradient.defined()) {
    if (leaf.mode == GradMode::add && leaf.gradient.defined()) return;
    gradient = zeros_of(*leaf.leaf);
  }
  const bool adds = leaf.mode == GradMode::add && leaf.gradient.defined();
  leaf.gradient = adds ? add(leaf.gradient, gradient) : owned(std::move(gradient));
}

// A leaf that a traced function captured is a constant there: no run of the graph would change it.
void check_leaves(std::span<const Edge> leaves, std::span<const Tensor> heads) {
  const bool tracing =
      std::any_of(heads.begin(), heads.end(), [](const Tensor& x) { return x.is_symbolic(); });
  for (const Edge& leaf : leaves)
    if (tracing && !leaf->leaf->symbolic)
      throw InvalidArgument(
          "backward: {} wants a gradient, but is neither an input nor a parameter of what is "
          "traced: make it one, or detach() it",
          leaf->leaf->info.str());
}

std::vector<Edge> edges_of(std::span<const Tensor> variables) {
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!variables[i].defined()) throw InvalidArgument("grad: variable {} is undefined", i);
    if (!requires_grad(variables[i]))
      throw InvalidArgument("grad: variable {} ({}) was not recorded and is no leaf", i,
                            variables[i].info().str());
    edges.push_back(variables[i].tape_entry());
  }
  return edges;
}

std::vector<Tensor> gradients_at(const Walk& walk, std::span<const Tensor> variables,
                                 const std::vector<Edge>& edges) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const Tensor gradient = walk.at(edges[i]);
    result.push_back(gradient.defined() ? gradient : filled_like(variables[i], 0.0));
  }
  return result;
}

void send_to_leaves(TensorList heads, TensorList head_grads, const Options& options) {
  check_heads(options.who, heads, head_grads);
  const RecordingFlag pause(Recording::paused);
  Walk walk(options, {});
  walk.run(heads, head_grads);
  check_leaves(walk.leaves(), heads);
  for (const Edge& leaf : walk.leaves()) store(*leaf, walk.take(leaf));
}

}  // namespace

void attach_grad(const Tensor& x, GradMode mode) {
  if (!x.defined()) throw InvalidArgument("attach_grad: the tensor is undefined");
  if (!is_floating(x.dtype()))
    throw InvalidArgument("attach_grad: {} is not floating", x.info().str());
  if (mode == GradMode::off)
    x.set_tape_entry(nullptr);
  else
    x.set_tape_entry(std::make_shared<TapeEntry>(TapeEntry{
        .mode = mode, .leaf = std::make_unique<TapeLeaf>(TapeLeaf{x.info(), x.is_symbolic()})}));
  if (x.is_symbolic() && x.trace_value()->history == History::whole)
    x.trace_value()->history = History::leaf;
}

Tensor gradient(const Tensor& x) { return requires_grad(x) ? x.tape_entry()->gradient : Tensor(); }

void zero_gradient(const Tensor& x) {
  const Tensor old = gradient(x);
  if (old.defined()) x.tape_entry()->gradient = filled_like(old, 0.0);
}

bool requires_grad(const Tensor& x) {
  return x.defined() && live_entry(x) != nullptr && is_floating(x.dtype());
}

void backward(TensorList heads, TensorList head_grads, bool retain) {
  send_to_leaves(heads, head_grads, {.who = "backward", .retain = retain});
}

void backward_and_forget(TensorList heads, TensorList head_grads) {
  send_to_leaves(heads, head_grads, {.who = "backward", .forget = true});
}

void backward(const Tensor& head) { backward(TensorList(&head, 1)); }

std::vector<Tensor> grad(TensorList heads, TensorList variables, TensorList head_grads,
                         bool create_graph, bool retain) {
  check_heads("grad", heads, head_grads);
  const std::vector<Edge> edges = edges_of(variables);
  if (edges.empty()) return {};
  Walk walk({.who = "grad", .create_graph = create_graph, .retain = retain || create_graph}, edges);
  if (create_graph) {
    RecordScope recording(is_training());
    walk.run(heads, head_grads);
  } else {
    const RecordingFlag pause(Recording::paused);
    walk.run(heads, head_grads);
  }
  return gradients_at(walk, variables, edges);
}

}  // namespace lockstep::autograd
