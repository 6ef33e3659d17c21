// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/detail/check_options.h"

namespace lockstep::detail {
namespace {

void check_delivery(const Graph& graph, const std::vector<bool>& is_state,
                    const std::vector<int>& exits, const Delivery& delivery) {
  if (delivery.output >= graph.outputs().size())
    throw InvalidArgument("compile: delivered output {} of {} does not exist", delivery.output,
                          graph.outputs().size());
  if (delivery.like >= is_state.size() || !is_state[delivery.like])
    throw InvalidArgument("compile: output {} is delivered like input {}, which is not a state",
                          delivery.output, delivery.like);
  if (exits[delivery.output] > 1)
    throw InvalidArgument("compile: output {} leaves in two ways", delivery.output);
  const TensorInfo& from = graph.info(graph.outputs()[delivery.output]);
  const TensorInfo& to = graph.info(graph.inputs()[delivery.like]);
  if (!(from == to))
    throw InvalidArgument("compile: the delivered output {} is {}, its state is {}",
                          delivery.output, from.str(), to.str());
}

}  // namespace

void check_options(const Graph& graph, const CompileOptions& options) {
  if (options.compute != DType::float32 && options.compute != DType::bfloat16)
    throw InvalidArgument("compile: computes in float32 or bfloat16, not in {}",
                          name_of(options.compute));
  std::vector<bool> is_state(graph.inputs().size(), false), is_target = is_state;
  for (std::size_t state : options.states) {
    if (state >= graph.inputs().size())
      throw InvalidArgument("compile: state {} of {} inputs does not exist", state,
                            graph.inputs().size());
    is_state[state] = true;
  }
  for (const Carry& carry : options.carries) {
    if (carry.input < is_target.size() && is_target[carry.input])
      throw InvalidArgument("compile: two outputs are carried into input {}", carry.input);
    if (carry.output >= graph.outputs().size())
      throw InvalidArgument("compile: carried output {} of {} does not exist", carry.output,
                            graph.outputs().size());
    if (carry.input >= is_state.size() || !is_state[carry.input])
      throw InvalidArgument("compile: output {} is carried into input {}, which is not a state",
                            carry.output, carry.input);
    const TensorInfo& from = graph.info(graph.outputs()[carry.output]);
    const TensorInfo& to = graph.info(graph.inputs()[carry.input]);
    if (!(from == to))
      throw InvalidArgument("compile: the carried output {} is {}, its state is {}", carry.output,
                            from.str(), to.str());
    is_target[carry.input] = true;
  }
  for (const std::size_t output : options.early_outputs)
    if (output >= graph.outputs().size())
      throw InvalidArgument("compile: early output {} of {} does not exist", output,
                            graph.outputs().size());
  for (const std::size_t input : options.late_inputs)
    if (input >= is_state.size() || is_state[input])
      throw InvalidArgument("compile: late input {} is a state, or none of {} inputs", input,
                            is_state.size());
  std::vector<int> exits(graph.outputs().size(), 0);
  const auto count = [&](const auto& exit) {
    if (exit.output < exits.size()) ++exits[exit.output];
  };
  for (const Delivery& delivery : options.deliveries) count(delivery);
  for (const Carry& carry : options.carries) count(carry);
  for (const Delivery& delivery : options.deliveries)
    check_delivery(graph, is_state, exits, delivery);
}

}  // namespace lockstep::detail
