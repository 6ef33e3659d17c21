// SPDX-License-Identifier: Apache-2.0
// What an engine keeps between steps, in and out of it: parameters, statistics, slots, residuals.
#include <algorithm>

#include "lockstep/io/archive.h"
#include "lockstep/train/detail/engine_parts.h"
#include "lockstep/train/detail/slice_names.h"

namespace lockstep::train {
namespace {

using detail::NamedTensors;

std::string residual_prefix(std::size_t rank) { return fmt::format("residual{}", rank); }

}  // namespace

std::vector<float> StepEngine::statistics() const {
  std::vector<float> values;
  for (const Tensor& one : impl_->program.statistics())
    values.insert(values.end(), one.data<float>(), one.data<float>() + one.numel());
  return values;
}

void StepEngine::set_statistics(std::span<const float> values) {
  std::vector<Tensor> all = impl_->program.statistics();
  std::size_t next = 0;
  for (Tensor& one : all) {
    const auto count = static_cast<std::size_t>(one.numel());
    check(next + count <= values.size(), "statistics of another net");
    one = one.copy();
    std::copy_n(values.data() + next, count, one.data<float>());
    next += count;
  }
  check(next == values.size(), "statistics of another net");
  impl_->program.set_statistics(all);
}

void StepEngine::store(nn::Block& net) const {
  if (!is_partial()) return impl_->program.store(net);
  const std::vector<nn::Parameter> places = impl_->program.parameters_of(net);
  for (const std::size_t i : impl_->everybodys->wholes())
    places[i].set_data(impl_->everybodys->get(i, impl_->synchronizer.get()));
}
void StepEngine::load(const nn::Block& net) { impl_->load(net); }

Tensor StepEngine::parameter(std::size_t number) const { return impl_->program.parameter(number); }

std::string StepEngine::params_sha256() const {
  return impl_->everybodys->sha256(impl_->synchronizer.get());
}

void StepEngine::collect_slots() {
  impl_->check_plan();
  impl_->synchronizer->collect_slots();
}

Snapshot StepEngine::snapshot(bool keep) const {
  Snapshot snapshot;
  if (!keep && !is_partial()) return snapshot;
  const std::vector<StepGraph::Parameter>& parameters = impl_->program.step().parameters;
  for (const std::size_t i : impl_->everybodys->wholes()) {
    Tensor own = impl_->everybodys->get(i, impl_->synchronizer.get());
    if (keep) snapshot.parameters.emplace_back(parameters[i].name, std::move(own));
  }
  // Of shared ones the first worker alone has collected them.
  if (!impl_->units || impl_->mode->group().is_first())
    snapshot.slots = impl_->everybodys->all_slots(impl_->own_slots(), impl_->slots(), keep);
  return snapshot;
}

Snapshot StepEngine::own_snapshot() const {
  if (impl_->mode->slot_place() == kvstore::SlotPlace::here) return snapshot();
  Snapshot snapshot;
  snapshot.parameters = impl_->everybodys->all(impl_->synchronizer.get());
  return snapshot;
}

std::vector<std::pair<std::string, Tensor>> StepEngine::slots() const {
  return detail::join_slices(impl_->program.step().parameters, impl_->own_slots());
}

void StepEngine::set_slots(const std::vector<std::pair<std::string, Tensor>>& slots) {
  std::vector<float> values(impl_->layout().floats);
  for (std::size_t k = 0; k < impl_->slots(); ++k) {
    impl_->program.set_flat(impl_->layout(), detail::slot_prefix(k), slots, values);
    impl_->set_slot(k, values);
  }
  for (std::size_t k = 0; k < impl_->slots(); ++k)
    impl_->program.set_tables(impl_->layout(), detail::slot_prefix(k), slots,
                              [&](std::size_t table, std::span<const float> numbers) {
                                impl_->set_table_slot(k, table, numbers);
                              });
}

std::vector<std::pair<std::string, Tensor>> StepEngine::residuals() {
  impl_->check_plan();
  const std::span<const float> own = impl_->synchronizer->residual();
  NamedTensors result;
  if (own.empty()) return result;
  const std::vector<float> all = impl_->mode->group().collect(own);
  for (std::size_t rank = 0; rank < all.size() / own.size(); ++rank)
    impl_->program.append_flat(impl_->layout(), residual_prefix(rank),
                               std::span(all).subspan(rank * own.size(), own.size()), result);
  return result;
}

void StepEngine::set_residuals(const std::vector<std::pair<std::string, Tensor>>& residuals) {
  impl_->check_plan();
  const std::span<float> own = impl_->synchronizer->residual();
  if (residuals.empty() || own.empty()) return;
  std::fill(own.begin(), own.end(), 0.0F);
  const kvstore::Group& group = impl_->mode->group();
  const std::size_t ranks = residuals.size() / impl_->layout().parameters.size();
  std::vector<float> its(own.size());
  for (auto rank = static_cast<std::size_t>(group.rank()); rank < ranks;
       rank += static_cast<std::size_t>(group.workers())) {
    impl_->program.set_flat(impl_->layout(), residual_prefix(rank), residuals, its);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] += its[i];
  }
}

}  // namespace lockstep::train
