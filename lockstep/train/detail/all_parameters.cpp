// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/all_parameters.h"

#include <algorithm>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/train/detail/slice_names.h"

namespace lockstep::train::detail {

std::string slot_prefix(std::size_t number) { return fmt::format("slot{}", number); }

AllParameters::AllParameters(const StepProgram& program, kvstore::MeshLinks* links,
                             WeightUnits* units)
    : program_(program), links_(links), units_(units) {
  const std::vector<StepGraph::Parameter>& parameters = program.step().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].slice <= 0) wholes_.push_back(i);
  if (links_ != nullptr) find_owners();
}

void AllParameters::find_owners() {
  const std::size_t count = program_.step().parameters.size();
  std::string own;
  for (std::size_t i = 0; i < count; ++i) own += program_.has(i) ? '1' : '0';
  const std::vector<std::string> all =
      comm::share_texts(links_->whole_replica(), own, links_->options());
  owners_.assign(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t rank = 0; rank < all.size() && owners_[i] < 0; ++rank)
      if (all[rank].at(i) == '1') owners_[i] = static_cast<int>(rank);
    check(owners_[i] >= 0, "a parameter that no worker has");
  }
}

// `own` where this worker is the owner.
Tensor AllParameters::from_owner(std::size_t place, Tensor own) {
  comm::Communicator& replica = links_->whole_replica();
  const int owner = owners_[place];
  if (owner != replica.rank()) own = Tensor::empty(program_.step().parameters[place].shape);
  own = own.contiguous();
  replica.broadcast({own.raw(), own.info().bytes()}, owner, links_->options());
  return own;
}

Tensor AllParameters::joined(std::size_t number, const Part& part) const {
  const StepGraph::Parameter& parameter = program_.step().parameters[number];
  if (!parameter.is_slice()) return part(number);
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < parameter.cut.slices(); ++k)
    parts.push_back(part(number + static_cast<std::size_t>(k)));
  return slice_gather(parts, parameter.cut);
}

Tensor AllParameters::get(std::size_t number, kvstore::Synchronizer* synchronizer) {
  if (units_ != nullptr) units_->bring(number, *synchronizer);
  return joined(number, [&](std::size_t place) {
    const Tensor own = program_.has(place) ? program_.parameter(place) : Tensor();
    return links_ == nullptr ? own : from_owner(place, own);
  });
}

const std::string& AllParameters::name_of(std::size_t number) const {
  return program_.step().parameters[number].name;
}

NamedTensors AllParameters::all(kvstore::Synchronizer* synchronizer) {
  NamedTensors tensors;
  for (const std::size_t number : wholes_)
    tensors.emplace_back(name_of(number), get(number, synchronizer));
  return tensors;
}

std::string AllParameters::sha256(kvstore::Synchronizer* synchronizer) {
  std::vector<std::size_t> order = wholes_;
  std::ranges::sort(order, {}, [&](std::size_t number) { return name_of(number); });
  Sha256 sum;
  for (const std::size_t number : order) {
    const Tensor dense = get(number, synchronizer).contiguous();
    sum.update({dense.raw(), dense.info().bytes()});
  }
  return sum.hex();
}

NamedTensors AllParameters::all_slots(NamedTensors own, std::size_t slots, bool keep) {
  if (links_ == nullptr) return join_slices(program_.step().parameters, own);
  const std::unordered_map<std::string, Tensor> by_name(own.begin(), own.end());
  NamedTensors all;
  for (std::size_t k = 0; k < slots; ++k)
    for (const std::size_t number : program_.step().trainable) {
      if (program_.step().parameters[number].slice > 0) continue;
      Tensor slot = joined(number, [&](std::size_t place) {
        const auto found =
            by_name.find(slot_prefix(k) + "/" + slice_name(program_.step().parameters[place]));
        return from_owner(place, found == by_name.end() ? Tensor() : found->second);
      });
      if (keep) all.emplace_back(slot_prefix(k) + "/" + name_of(number), std::move(slot));
    }
  return all;
}

}  // namespace lockstep::train::detail
