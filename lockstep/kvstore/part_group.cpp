// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/part_group.h"

#include <cstring>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"

namespace lockstep::kvstore {

PartGroup::PartGroup(comm::Communicator& same_part, comm::Communicator& all_parts,
                     std::chrono::milliseconds timeout)
    : all_parts_(all_parts),
      same_part_(group_of(same_part, cluster::workers_of(same_part), timeout)) {
  options_.timeout = timeout;
}

std::vector<std::string> PartGroup::texts_of_all_parts(const std::string& own) {
  return comm::share_texts(all_parts_, own, options_);
}

Vote PartGroup::gather(const Vote& own, std::int64_t parts, std::span<float> rows) {
  Vote vote = same_part_->gather(own, parts, rows);
  const std::size_t message = sizeof(Vote) + rows.size_bytes();
  sent_.resize(message);
  received_.resize(message * static_cast<std::size_t>(all_parts_.size()));
  std::memcpy(sent_.data(), &vote, sizeof vote);
  std::memcpy(sent_.data() + sizeof vote, rows.data(), rows.size_bytes());
  all_parts_.all_gather(sent_, received_, options_);
  auto* const table = reinterpret_cast<std::byte*>(rows.data());
  for (std::size_t begin = 0; begin < received_.size(); begin += message) {
    Vote its;
    std::memcpy(&its, received_.data() + begin, sizeof its);
    vote = combine(vote, its);
    const std::byte* from = received_.data() + begin + sizeof its;
    for (std::size_t i = 0; i < rows.size_bytes(); ++i) table[i] |= from[i];
  }
  return vote;
}

}  // namespace lockstep::kvstore
