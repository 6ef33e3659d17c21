// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/product_speed.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <numeric>

#include "lockstep/base/float_mode.h"
#include "lockstep/graph/executable.h"
#include "lockstep/graph/flops.h"
#include "lockstep/graph/passes/passes.h"

namespace lockstep::train {
namespace {

// A product that a graph has one or more times.
struct Product {
  const Node* node;
  Infos inputs;
  double flops;  // of all of them
  int times = 1;
};

Infos input_infos(const Graph& graph, const Node& node) {
  Infos infos;
  for (ValueId input : node.inputs) infos.push_back(graph.info(input));
  return infos;
}

Graph graph_of(const Product& product, DType dtype) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (TensorInfo info : product.inputs) {
    info.dtype = dtype;
    inputs.push_back(graph.add_input(info, {}));
  }
  graph.add_output(graph.add_node(*product.node->op, inputs, product.node->attrs));
  return graph;
}

bool is_same(const Product& product, const Node& node, const Infos& inputs) {
  return product.node->op == node.op && product.node->attrs == node.attrs &&
         product.inputs == inputs;
}

void count(std::vector<Product>& products, const Node& node, Infos inputs) {
  const auto known = std::find_if(products.begin(), products.end(),
                                  [&](const Product& p) { return is_same(p, node, inputs); });
  if (known != products.end()) {
    known->flops += known->flops / known->times;
    ++known->times;
    return;
  }
  Product product{&node, std::move(inputs), 0.0};
  product.flops = count_flops(graph_of(product, DType::float32));
  products.push_back(std::move(product));
}

// The few that most of the work is in.
std::vector<Product> largest_products(const Graph& graph) {
  constexpr std::size_t kFew = 4;
  std::vector<Product> products;
  for (const Node& node : graph.nodes())
    if (passes::is_product(node)) count(products, node, input_infos(graph, node));
  std::stable_sort(products.begin(), products.end(),
                   [](const Product& a, const Product& b) { return a.flops > b.flops; });
  if (products.size() > kFew) products.erase(products.begin() + kFew, products.end());
  return products;
}

// Seconds that this thread has had a core: a machine with other work to do is measured too.
double own_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// One product, compiled: its inputs lie as the kernel likes them, as in a step.
class Stopwatch {
 public:
  Stopwatch(const Product& product, DType dtype)
      : executable_(Executable::compile(graph_of(product, dtype), all_states(product))) {
    for (std::size_t i = 0; i < product.inputs.size(); ++i)
      executable_.set_state(i, Tensor::zeros(product.inputs[i].shape, dtype));
    run();
    fastest = std::numeric_limits<double>::infinity();
  }

  double run() {
    const double begin = own_time();
    executable_.run({});
    const double spent = own_time() - begin;
    fastest = std::min(fastest, spent);
    return spent;
  }

  double fastest = std::numeric_limits<double>::infinity();

 private:
  static CompileOptions all_states(const Product& product) {
    CompileOptions options;
    options.prologue = false;
    options.states.resize(product.inputs.size());
    std::iota(options.states.begin(), options.states.end(), 0);
    return options;
  }

  Executable executable_;
};

}  // namespace

double bfloat16_speedup(const Graph& graph, double seconds) {
  const FlushSubnormals as_in_a_step;
  const std::vector<Product> products = largest_products(graph);
  double in_float32 = 0, in_bfloat16 = 0;
  for (const Product& product : products) {
    Stopwatch wide(product, DType::float32), narrow(product, DType::bfloat16);
    for (double left = seconds / static_cast<double>(products.size()); left > 0;)
      left -= wide.run() + narrow.run();
    in_float32 += wide.fastest * product.times;
    in_bfloat16 += narrow.fastest * product.times;
  }
  return products.empty() ? 1.0 : in_float32 / in_bfloat16;
}

}  // namespace lockstep::train
