// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/all_parameters.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"
#include "lockstep/comm/agreement.h"

namespace lockstep::train::detail {

std::string slot_prefix(std::size_t number) { return fmt::format("slot{}", number); }

AllParameters::AllParameters(const StepProgram& program, kvstore::StageLinks* links,
                             WeightUnits* units)
    : program_(program), links_(links), units_(units) {
  if (links_ != nullptr) find_owners();
}

void AllParameters::find_owners() {
  const std::size_t count = program_.step().parameters.size();
  std::string own;
  for (std::size_t i = 0; i < count; ++i) own += program_.has(i) ? '1' : '0';
  const std::vector<std::string> all =
      comm::share_texts(links_->pipeline(), own, links_->options());
  owners_.assign(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t stage = 0; stage < all.size() && owners_[i] < 0; ++stage)
      if (all[stage].at(i) == '1') owners_[i] = static_cast<int>(stage);
    check(owners_[i] >= 0, "a parameter that no stage has");
  }
}

// `own` where this stage has it.
Tensor AllParameters::from_owner(std::size_t number, Tensor own) {
  const int owner = owners_[number];
  if (owner != links_->stage()) own = Tensor::empty(program_.step().parameters[number].shape);
  own = own.contiguous();
  links_->pipeline().broadcast({own.raw(), own.info().bytes()}, owner, links_->options());
  return own;
}

Tensor AllParameters::get(std::size_t number, kvstore::Synchronizer* synchronizer) {
  if (links_ != nullptr)
    return from_owner(number, program_.has(number) ? program_.parameter(number) : Tensor());
  if (units_ != nullptr) units_->bring(number, *synchronizer);
  return program_.parameter(number);
}

NamedTensors AllParameters::all(kvstore::Synchronizer* synchronizer) {
  NamedTensors tensors;
  for (std::size_t i = 0; i < program_.step().parameters.size(); ++i)
    tensors.emplace_back(program_.step().parameters[i].name, get(i, synchronizer));
  return tensors;
}

std::string AllParameters::sha256(kvstore::Synchronizer* synchronizer) {
  const std::vector<StepGraph::Parameter>& parameters = program_.step().parameters;
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return parameters[a].name < parameters[b].name; });
  Sha256 sum;
  for (const std::size_t number : order) {
    const Tensor dense = get(number, synchronizer).contiguous();
    sum.update({dense.raw(), dense.info().bytes()});
  }
  return sum.hex();
}

NamedTensors AllParameters::all_slots(NamedTensors own, std::size_t slots, bool keep) {
  if (links_ == nullptr) return own;
  NamedTensors all;
  for (std::size_t k = 0; k < slots; ++k)
    for (const std::size_t number : program_.step().trainable) {
      const std::string name = slot_prefix(k) + "/" + program_.step().parameters[number].name;
      const auto found = std::find_if(own.begin(), own.end(),
                                      [&](const auto& named) { return named.first == name; });
      Tensor slot = from_owner(number, found == own.end() ? Tensor() : found->second);
      if (keep) all.emplace_back(name, std::move(slot));
    }
  return all;
}

}  // namespace lockstep::train::detail
