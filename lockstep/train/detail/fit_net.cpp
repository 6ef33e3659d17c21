// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lockstep/base/sha256.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/kvstore/mesh_mode.h"
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

std::string sha256_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  Sha256 sum;
  sum.update({dense.raw(), dense.info().bytes()});
  return sum.hex();
}

}  // namespace

// Of a worker that has a part of the parameters alone it is as after the last time that all workers
// brought theirs: they would have to be asked.
nn::Block& Fit::net() {
  is_net_asked_for_ = true;
  if (engine_ && !engine_->is_partial()) bring_net();
  return *parts_.net;
}

void Fit::bring_net() {
  if (net_is_current_) return;
  refuse_lost_parameters();  // of a net that was held too
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

// A worker that has a part of the parameters has no room for another copy of all.
void Fit::remember_parameters() {
  in_net_.clear();
  sums_of_net_.clear();
  for (const auto& [name, parameter] : trained_parameters(*parts_.net, parts_.loss))
    engine_->is_partial() ? sums_of_net_.push_back(sha256_of(parameter.data()))
                          : in_net_.push_back(parameter.data().detach().copy());
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

// A line for each, with what it was set to.
std::vector<std::string> Fit::set_parameters() const {
  std::vector<std::string> set;
  const std::vector<nn::NamedParameter> now = trained_parameters(*parts_.net, parts_.loss);
  for (std::size_t i = 0; i < std::min(now.size(), sums_of_net_.size()); ++i)
    if (const std::string sum = sha256_of(now[i].parameter.data()); sum != sums_of_net_[i])
      set.push_back(now[i].name + " " + sum);
  return set;
}

// The net that a callback saw was older than the parameters.
void Fit::refuse_lost_parameters() const {
  if (!engine_->is_partial() || net_is_current_) return;
  const std::vector<std::string> set = set_parameters();
  if (set.empty()) return;
  throw InvalidArgument(
      "train: {} was set after step {}, but each worker has a part of the parameters alone, and "
      "they are together only when a run begins, is evaluated and ends: set it in on_train_begin, "
      "on_evaluation or on_train_end",
      set[0].substr(0, set[0].find(' ')), step_);
}

// Of workers that have a part of the parameters each, all of which come here at the same steps.
bool Fit::take_set_parts() {
  if (!net_is_current_) {
    if (is_net_asked_for_) refuse_lost_parameters();  // reading all of them costs too much else
    return false;
  }
  const std::vector<std::string> set = set_parameters();
  const auto name_of = [](const std::string& lines) {
    return lines.empty() ? "nothing" : lines.substr(0, lines.find(' '));
  };
  comm::compare_texts(
      group().share(fmt::format("{}", fmt::join(set, "\n"))),
      [&](std::size_t rank, const std::string& first, const std::string& its) {
        throw InvalidArgument(
            "train: a callback set {} on worker 0, and {} on worker {}, or to other values: where "
            "each worker has a part of the parameters, it sets the same on all",
            name_of(first), name_of(its), rank);
      });
  if (set.empty()) return false;
  engine_->load(*parts_.net);
  remember_parameters();
  return true;
}

// What a callback has set in the net is what training goes on with. Tells whether there was any.
bool Fit::take_set_parameters() {
  if (engine_->is_partial()) return take_set_parts();
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
  net_is_current_ = is_net_asked_for_ = false;
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
