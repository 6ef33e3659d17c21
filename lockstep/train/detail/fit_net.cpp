// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/kvstore/staged_mode.h"
#include "lockstep/optim/checked_rate.h"
#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/detail/fit.h"

// What a run and its callbacks tell one another: the net's parameters, which live in the engine
// while it goes on, and the learning rate.
namespace lockstep::train::detail {
namespace {

bool is_same(const Tensor& a, const Tensor& b) {
  return a.info() == b.info() &&
         (a.numel() == 0 || std::memcmp(a.raw(), b.contiguous().raw(), a.info().bytes()) == 0);
}

}  // namespace

// Of a worker that has a part of the parameters alone it is as after the last time that all workers
// brought theirs: they would have to be asked.
nn::Block& Fit::net() {
  if (engine_ && !engine_->is_partial()) bring_net();
  return *parts_.net;
}

void Fit::bring_net() {
  if (net_is_current_) return;
  engine_->store(*parts_.net);
  net_is_current_ = true;
  remember_parameters();
}

ShardRange Fit::shards() const {
  return kvstore::range_of(*parts_.options.mode, parts_.options.shards);
}

void Fit::choose_mesh() {
  Mesh& mesh = parts_.options.mesh;
  if (mesh.cuts.empty() && mesh.segments > 1)
    mesh.cuts =
        choose_cuts(*parts_.net, parts_.loss, state_.fields, parts_.options.fields, mesh.segments);
}

void Fit::remember_parameters() {
  in_net_.clear();
  if (engine_->is_partial()) return;
  for (const auto& [name, parameter] : trained_parameters(*parts_.net, parts_.loss))
    in_net_.push_back(parameter.data().detach().copy());
}

// Empty where there is none.
std::string Fit::first_set_parameter() const {
  const std::vector<nn::NamedParameter> now = trained_parameters(*parts_.net, parts_.loss);
  if (now.size() != in_net_.size()) return {};  // the engine complains of other parameters
  for (std::size_t i = 0; i < now.size(); ++i) {
    const nn::Parameter& parameter = now[i].parameter;
    if (!parameter.is_initialized() || parameter.shape() != in_net_[i].shape()) return {};
    if (!is_same(in_net_[i], parameter.data())) return now[i].name;
  }
  return {};
}

// What a callback has set in the net is what training goes on with. Tells whether there was any.
bool Fit::take_set_parameters() {
  const std::string name = net_is_current_ ? first_set_parameter() : "";
  if (name.empty()) return false;
  if (out_of_step() != nullptr)
    throw InvalidArgument(
        "train: {} was set while a fit was running whose workers are not in step: others go on "
        "with the weights of the servers; let it end (FitContext::request_stop), then set it and "
        "fit again",
        name);
  engine_->load(*parts_.net);
  remember_parameters();
  return true;
}

// A step goes on from here.
void Fit::leave_net() {
  net_is_current_ = false;
  in_net_.clear();
}

// A run that fails leaves the net as after its last step.
void Fit::leave_committed_parameters() noexcept {
  try {
    if (engine_) net();
  } catch (...) {
    // The first error is the one to tell.
  }
}

double Fit::learning_rate(std::int64_t step) const {
  const double rate = options_.schedule.rate
                          ? optim::detail::checked_rate("train", options_.schedule, step)
                          : parts_.optimizer->options().learning_rate;
  if (!options_.schedule.plateau || reductions_ == 0) return rate;
  const optim::Plateau& plateau = *options_.schedule.plateau;
  return std::max(std::min(rate, plateau.min_rate), rate * std::pow(plateau.factor, reductions_));
}

}  // namespace lockstep::train::detail
