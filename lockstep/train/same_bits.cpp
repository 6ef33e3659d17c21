// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/same_bits.h"

#include <algorithm>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/comm/agreement.h"

namespace lockstep::train {
namespace {

struct Told {
  Probe probe;
  std::string processor;
};

std::string to_text(const Probe& probe) {
  return probe.parameters + "\n" + probe.layouts + "\n" + probe.results + "\n" + processor_name();
}

Told from_text(const std::string& text) {
  std::istringstream lines(text);
  Told told;
  std::getline(lines, told.probe.parameters);
  std::getline(lines, told.probe.layouts);
  std::getline(lines, told.probe.results);
  std::getline(lines, told.processor);
  return told;
}

std::string brief(const std::string& sum) { return sum.substr(0, 16); }

void compare_parameters(const Told& first, const Told& other, std::size_t rank) {
  if (first.probe.parameters != other.probe.parameters)
    throw comm::Refused(
        fmt::format("train: worker {} begins with parameters {}, worker 0 with {}: they must be "
                    "the same; look at its files",
                    rank, brief(other.probe.parameters), brief(first.probe.parameters)));
}

void compare_layouts(const Told& first, const Told& other, std::size_t rank) {
  if (first.probe.layouts != other.probe.layouts)
    throw comm::Refused(
        fmt::format("train: worker {} ({}) keeps its weights in another order than worker 0 ({}): "
                    "their libraries choose other kernels; leave it out, or set LOCKSTEP_ISA",
                    rank, other.processor, first.processor));
}

[[noreturn]] void refuse(const Told& first, const Told& other, std::size_t rank) {
  throw comm::Refused(fmt::format(
      "train: worker {} ({}) computes other bits than worker 0 ({}): {} and {}; leave it out, or "
      "--allow-different-bits",
      rank, other.processor, first.processor, brief(other.probe.results),
      brief(first.probe.results)));
}

}  // namespace

InstructionSet agree_on_instruction_set(kvstore::Group& group,
                                        std::optional<InstructionSet> recorded) {
  InstructionSet set = best_instruction_set();
  for (const std::string& name : group.share(std::string(to_string(set))))
    set = std::min(set, parse_instruction_set(name));
  if (recorded) set = std::min(set, *recorded);
  limit_instruction_set(set);
  return set;
}

bool have_same_bits(kvstore::Group& group, const Probe& own, bool allow) {
  bool same = true;
  const auto look = [&](std::size_t rank, const std::string& of_first, const std::string& its) {
    const Told first = from_text(of_first), other = from_text(its);
    compare_parameters(first, other, rank);
    compare_layouts(first, other, rank);
    if (other.probe.results == first.probe.results) return;
    if (!allow) refuse(first, other, rank);
    same = false;
  };
  comm::compare_texts(group.share(to_text(own)), look);
  return same;
}

}  // namespace lockstep::train
