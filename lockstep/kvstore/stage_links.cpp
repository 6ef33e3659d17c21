// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/stage_links.h"

#include "lockstep/base/error.h"

namespace lockstep::kvstore {

StageLinks::StageLinks(comm::Communicator& job, int stages, std::chrono::milliseconds timeout)
    : stages_(stages) {
  options_.timeout = timeout;
  if (stages < 1 || job.size() % stages != 0)
    throw InvalidArgument(
        "pipeline: {} workers cannot be pipelines of {} stages each: choose a multiple", job.size(),
        stages);
  stage_ = job.rank() % stages;
  replica_ = job.rank() / stages;
  replicas_ = job.size() / stages;
  // Every rank makes all groups, in one order, and keeps those that it is in.
  const auto keep = [&](std::unique_ptr<comm::Communicator>& place, const std::vector<int>& ranks) {
    if (auto made = job.split(ranks, options_)) place = std::move(made);
  };
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int> ranks;
    for (int replica = 0; replica < replicas_; ++replica) ranks.push_back(replica * stages + stage);
    keep(same_stage_, ranks);
  }
  for (int replica = 0; replica < replicas_; ++replica) {
    std::vector<int> ranks;
    for (int stage = 0; stage < stages; ++stage) ranks.push_back(replica * stages + stage);
    keep(pipeline_, ranks);
  }
}

NeighbourLinks& StageLinks::of_thread(std::size_t thread) {
  while (of_threads_.size() <= thread)
    of_threads_.push_back(std::make_unique<NeighbourLinks>(*pipeline_, options_));
  return *of_threads_[thread];
}

// Every stage makes all pairs, in one order, and keeps those that it is in.
NeighbourLinks::NeighbourLinks(comm::Communicator& pipeline, const comm::CallOptions& options)
    : options_(options) {
  for (int lower = 0; lower + 1 < pipeline.size(); ++lower)
    for (const bool up : {true, false}) {
      auto made = pipeline.split({lower, lower + 1}, options);
      if (!made) continue;
      const bool is_lower = lower == pipeline.rank();
      (up ? (is_lower ? to_above_ : from_below_) : (is_lower ? from_above_ : to_below_)) =
          std::move(made);
    }
}

void NeighbourLinks::receive(comm::Communicator& link, const Parts& parts, int from) const {
  for (const std::span<std::byte> part : parts) link.receive(part, from, options_);
}

comm::WorkPtr NeighbourLinks::send(comm::Communicator& link, const Parts& parts, int to) const {
  return link.start([parts, to, options = options_](comm::Communicator& own) {
    for (const std::span<std::byte> part : parts) own.send(part, to, options);
  });
}

}  // namespace lockstep::kvstore
