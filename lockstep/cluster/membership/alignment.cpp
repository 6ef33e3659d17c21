// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/alignment.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster {

std::string Progress::to_text() const {
  return detail::FieldWriter().number(step).number(evaluated).bytes();
}

Progress Progress::from_text(const std::string& text) {
  detail::FieldReader reader(text);
  Progress progress;
  progress.step = reader.number();
  progress.evaluated = reader.number();
  return progress;
}

bool Alignment::is_needed() const {
  return std::find(receives.begin(), receives.end(), true) != receives.end();
}

Alignment align(std::span<const Progress> all) {
  const auto furthest = std::max_element(all.begin(), all.end());
  if (furthest == all.end() || !furthest->has_state())
    throw InvalidArgument("membership: none of {} workers has the state of the run", all.size());
  Alignment alignment{.source = static_cast<int>(furthest - all.begin())};
  for (const Progress& one : all) {
    alignment.receives.push_back(one != *furthest);
    alignment.has_newcomers = alignment.has_newcomers || !one.has_state();
  }
  return alignment;
}

GenerationMember::GenerationMember(std::int64_t id, const Membership& first)
    : id_(id), state_(State::computing), membership_(first) {}

bool GenerationMember::accepts(std::int64_t generation) const {
  return state_ != State::reporting && state_ != State::over && generation == this->generation();
}

void GenerationMember::fail() {
  check(state_ != State::over, "a member that has left fails");
  state_ = State::reporting;
}

void GenerationMember::begin(const Membership& membership) {
  check(state_ == State::reporting, "a generation begins for a member that did not ask for one");
  if (membership.generation <= generation())
    throw Corrupt("membership: generation {} after generation {}", membership.generation,
                  generation());
  membership.rank_of(id_);
  membership_ = membership;
  state_ = State::connecting;
}

Alignment GenerationMember::align_with(std::span<const Progress> all) {
  check(state_ == State::connecting, "states are compared before there is a generation");
  state_ = State::aligning;
  return align(all);
}

void GenerationMember::aligned() {
  check(state_ == State::aligning, "states are the same that were never compared");
  state_ = State::computing;
}

}  // namespace lockstep::cluster
