// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/predict_run.h"

#include <map>

#include "lockstep/base/error.h"
#include "lockstep/graph/segments.h"
#include "lockstep/train/detail/tensor_parts.h"

namespace lockstep::train::detail {

struct PredictRun::Plan {
  // Of one segment: crossing values, and outputs of the whole graph.
  struct Part {
    std::vector<std::size_t> read, made, outputs;
    std::vector<std::size_t> sent_states = {};
  };
  SegmentRange own{};
  std::size_t segments = 1;
  std::vector<Part> parts;
  std::vector<CrossingValue> values;
  Infos outputs;
  std::vector<std::int32_t> made_in;  // by output: the segment
  std::size_t fields = 0;
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> states;  // input: part, its input
  std::vector<std::size_t> from_below, to_above;
};

namespace {

Segments segments_of(const PredictGraph& predict) {
  SegmentOptions options{.segments = static_cast<std::int32_t>(predict.cuts.size()) + 1,
                         .cells = predict.cells};
  if (predict.cells.empty()) options.cells.resize(predict.graph.nodes().size());
  options.homes = predict.homes;
  for (std::size_t i = 0; i < predict.parameters.size(); ++i)
    options.states.push_back(predict.fields + i);
  return cut_into_segments(predict.graph, options);
}

Tensor room_for(const TensorInfo& info) {
  return Tensor::empty(info.shape, info.dtype, info.device);
}

int stage_of(std::int32_t segment, std::size_t segments, int stages) {
  for (int stage = 0; stage < stages; ++stage)
    if (segment < segments_of_stage(static_cast<std::int64_t>(segments), stages, stage).hi)
      return stage;
  throw InternalError("a segment that no stage has");
}

}  // namespace

PredictRun::PredictRun(std::shared_ptr<const Plan> plan, std::vector<Executable> parts)
    : plan_(std::move(plan)), parts_(std::move(parts)) {}

PredictRun::PredictRun(const PredictGraph& predict, const CompileOptions& options, SegmentRange own)
    : PredictRun(make(predict, options, own, nullptr)) {}

PredictRun::PredictRun(const PredictGraph& predict, const CompileOptions& options,
                       const PredictRun& like)
    : PredictRun(make(predict, options, like.plan_->own, &like)) {}

PredictRun PredictRun::make(const PredictGraph& predict, const CompileOptions& options,
                            SegmentRange own, const PredictRun* like) {
  const Segments cut = segments_of(predict);
  auto plan = std::make_shared<Plan>();
  plan->own = own;
  plan->values = cut.values;
  plan->fields = predict.fields;
  for (const ValueId output : predict.graph.outputs())
    plan->outputs.push_back(predict.graph.info(output));
  plan->made_in.resize(plan->outputs.size());
  plan->segments = cut.segments.size();
  for (std::size_t s = 0; s < plan->segments; ++s)
    for (const std::size_t output : cut.segments[s].outputs)
      plan->made_in[output] = static_cast<std::int32_t>(s);
  std::vector<Executable> parts;
  for (std::int32_t s = own.lo; s < own.hi; ++s) {
    const Segment& segment = cut.segments[static_cast<std::size_t>(s)];
    const std::size_t place = parts.size(), first = cut.shared_inputs + segment.read.size();
    CompileOptions of_part = options;
    for (std::size_t k = 0; k < segment.states.size(); ++k) {
      plan->states[segment.states[k]] = {place, first + k};
      of_part.states.push_back(first + k);
    }
    Plan::Part part{segment.read, segment.made, segment.outputs};
    for (std::size_t v = 0; v < cut.values.size(); ++v)
      if (cut.values[v].state && cut.values[v].from == s) part.sent_states.push_back(v);
    plan->parts.push_back(std::move(part));
    parts.push_back(like ? Executable::compile(segment.graph, of_part, like->parts_[place])
                         : Executable::compile(segment.graph, of_part));
  }
  if (own.lo > 0) plan->from_below = cut.going_up(own.lo - 1);
  if (own.hi < std::ssize(cut.segments)) plan->to_above = cut.going_up(own.hi - 1);
  return {std::move(plan), std::move(parts)};
}

PredictRun PredictRun::clone() const {
  std::vector<Executable> parts;
  for (const Executable& part : parts_) parts.push_back(part.clone());
  return {plan_, std::move(parts)};
}

PredictRun PredictRun::clone(const PredictRun& like) const {
  std::vector<Executable> parts;
  for (std::size_t i = 0; i < parts_.size(); ++i) parts.push_back(parts_[i].clone(like.parts_[i]));
  return {plan_, std::move(parts)};
}

bool PredictRun::has_parameter(std::size_t number) const {
  return plan_->states.contains(plan_->fields + number);
}

void PredictRun::set_parameter(std::size_t number, const Tensor& value) {
  const auto [part, input] = plan_->states.at(plan_->fields + number);
  parts_[part].set_state(input, value);
}

Tensors PredictRun::run_parts(const data::Fields& fields, std::vector<Tensor>& values) {
  Tensors outputs(plan_->outputs.size());
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Plan::Part& part = plan_->parts[p];
    if (part.made.empty() && part.outputs.empty() && part.sent_states.empty()) continue;
    for (const std::size_t v : part.sent_states)
      values[v] = parts_[p].state(plan_->states.at(*plan_->values[v].state).second);
    Tensors inputs(fields.begin(), fields.end());
    for (const std::size_t v : part.read) inputs.push_back(values[v]);
    Tensors made = parts_[p].run(inputs);
    for (std::size_t k = 0; k < part.made.size(); ++k) values[part.made[k]] = std::move(made[k]);
    for (std::size_t k = 0; k < part.outputs.size(); ++k)
      outputs[part.outputs[k]] = std::move(made[part.made.size() + k]);
  }
  return outputs;
}

Tensors PredictRun::run(const data::Fields& fields) {
  std::vector<Tensor> values(plan_->values.size());
  return run_parts(fields, values);
}

PredictRun::Passed PredictRun::run_stage(const data::Fields& fields, kvstore::MeshLinks& links) {
  std::vector<Tensor> values(plan_->values.size());
  Tensors received;
  for (const std::size_t v : plan_->from_below) received.push_back(room_for(plan_->values[v].info));
  if (!received.empty()) links.neighbours(0).receive_from_below(bytes_of(received));
  for (std::size_t k = 0; k < received.size(); ++k) values[plan_->from_below[k]] = received[k];
  Passed passed{run_parts(fields, values)};
  for (const std::size_t v : plan_->to_above) passed.sent.push_back(values[v].contiguous());
  if (!passed.sent.empty())
    passed.sending = links.neighbours(0).start_sending_above(bytes_of(passed.sent));
  return passed;
}

void PredictRun::Passed::finish_sending() {
  if (sending) sending->wait();
  sending.reset();
  sent.clear();
}

Tensors PredictRun::share(Passed& passed, kvstore::MeshLinks& links) const {
  passed.finish_sending();
  Tensors outputs;
  for (std::size_t i = 0; i < plan_->outputs.size(); ++i) {
    const int maker = stage_of(plan_->made_in[i], plan_->segments, links.stages());
    outputs.push_back(maker == links.stage() ? passed.outputs[i].contiguous()
                                             : room_for(plan_->outputs[i]));
    links.pipeline().broadcast({outputs[i].raw(), outputs[i].info().bytes()}, maker,
                               links.options());
  }
  return outputs;
}

}  // namespace lockstep::train::detail
