// SPDX-License-Identifier: Apache-2.0
// What was wrong with a step, and what tells processors apart.
#include "lockstep/base/float_mode.h"
#include "lockstep/base/sha256.h"
#include "lockstep/kvstore/tree_sum.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/train/detail/bad_sample.h"
#include "lockstep/train/detail/engine_parts.h"

namespace lockstep::train {
namespace {

// Draws where an input has floats; the first class or word where a field has indices, which labels
// may have as floats.
data::Fields fixed_fields(const std::vector<TensorInfo>& infos, const FieldRoles& roles) {
  const RandomScope draws(random_key(0, 0, 0));
  data::Fields fields;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const auto& [shape, dtype, device] = infos[i];
    const bool is_drawn = dtype == DType::float32 && roles[i].role == FieldRole::input;
    fields.push_back((is_drawn ? normal(shape) : Tensor::zeros(shape, dtype)).to(device));
  }
  return fields;
}

}  // namespace

std::string StepEngine::find_bad_op(std::int64_t step, std::span<const data::Fields> shards) {
  impl_->check_plan();
  if (is_partial()) return {};  // no stage can compute the shards by itself
  const FlushSubnormals flush;
  impl_->plan->set_keys(step);
  impl_->select_shape(shards);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const auto found = impl_->program.executable(0).find_non_finite(impl_->plan->inputs(s, shards));
    if (!found) continue;
    const StepGraph& graph = impl_->program.step();
    switch (found->kind) {
      case NonFinite::Kind::state:
        return "parameter " + graph.parameters[found->index - graph.parameter_input(0)].name;
      case NonFinite::Kind::input:
        return fmt::format("the data of shard {}", range().lo + static_cast<std::int64_t>(s));
      case NonFinite::Kind::step: return "op " + found->what;
    }
  }
  return {};
}

std::optional<BadSample> StepEngine::find_refused_sample(std::int64_t step,
                                                         std::span<const data::Fields> shards) {
  impl_->check_plan();
  if (is_partial() || !impl_->have_selected_shape(shards)) return {};
  const FlushSubnormals flush;
  impl_->plan->set_keys(step);
  std::vector<data::Fields> tried(shards.begin(), shards.end());
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : impl_->program.first().output_infos())
    outputs.push_back(Tensor::zeros(info.shape, info.dtype, info.device));
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const auto run = [&](const data::Fields& batch) {
      tried[s] = batch;
      impl_->program.executable(0).run_into(impl_->plan->inputs(s, tried), outputs,
                                            [](std::size_t, std::span<const std::byte>) {});
    };
    if (auto refused = detail::find_refused_row(shards[s], run)) {
      refused->shard = static_cast<std::int64_t>(s);
      return refused;
    }
  }
  return {};
}

std::string StepEngine::find_bad_sum() const {
  impl_->check_plan();
  const std::span<const float> sums = impl_->synchronizer->sums();
  for (const kvstore::FlatParameter& parameter : impl_->layout().parameters) {
    if (sums.empty() || kvstore::all_finite(sums.subspan(parameter.offset, parameter.count)))
      continue;
    return impl_->plan->is_finite_here(parameter) ? impl_->program.name_of(parameter) : "";
  }
  const kvstore::RowTables& tables = impl_->state.tables();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (kvstore::all_finite(tables.gradient(t).rows)) continue;
    return impl_->plan->is_finite_here(t) ? impl_->program.name_of(tables.layout(t)) : "";
  }
  return {};
}

Probe StepEngine::probe() {
  impl_->check_plan();
  if (is_partial()) return {params_sha256(), {}, {}};
  const FlushSubnormals flush;
  Sha256 sum;
  std::vector<Tensor> inputs = fixed_fields(impl_->program.fields(), impl_->program.step().roles);
  inputs.push_back(random_key(0, 0, 0).to(inputs[0].device()));
  std::vector<Tensor>& outputs = impl_->plan->outputs(0);
  impl_->program.executable(0).run_into(
      inputs, outputs,
      [&](std::size_t, std::span<const std::byte> gradient) { sum.update(gradient); });
  for (const Tensor& output : outputs) {
    const Tensor host = output.to(cpu());
    sum.update({host.raw(), host.info().bytes()});
  }
  return {params_sha256(), impl_->program.layouts_sha256(impl_->layout()), sum.hex()};
}

}  // namespace lockstep::train
