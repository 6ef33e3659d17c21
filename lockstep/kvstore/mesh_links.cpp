// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/mesh_links.h"

#include <numeric>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {

MeshLinks::MeshLinks(comm::Communicator& job, const ReplicaShape& shape,
                     std::chrono::milliseconds timeout)
    : shape_(shape) {
  options_.timeout = timeout;
  if (shape.stages < 1 || shape.tensor < 1 || job.size() % shape.workers() != 0)
    throw InvalidArgument(
        "mesh: {} workers cannot be replicas of {} each (stages: {}, tensor: {}): choose a "
        "multiple",
        job.size(), shape.workers(), shape.stages, shape.tensor);
  place_ = job.rank() % shape.tensor;
  stage_ = job.rank() / shape.tensor % shape.stages;
  replica_ = job.rank() / shape.workers();
  replicas_ = job.size() / shape.workers();
  make_groups(job);
}

// Every rank asks for all groups of a kind, in one order, and keeps the one that it is in.
void MeshLinks::make_groups(comm::Communicator& job) {
  const auto rank = [&](int replica, int stage, int place) {
    return (replica * stages() + stage) * tensor() + place;
  };
  const auto keep = [&](std::unique_ptr<comm::Communicator>& kept, const std::vector<int>& ranks) {
    if (auto made = job.split(ranks, options_)) kept = std::move(made);
  };
  for (int stage = 0; stage < stages(); ++stage) {
    std::vector<int> of_stage;
    for (int replica = 0; replica < replicas_; ++replica)
      for (int place = 0; place < tensor(); ++place)
        of_stage.push_back(rank(replica, stage, place));
    keep(stage_of_all_, of_stage);
    for (int place = 0; place < tensor(); ++place) {
      std::vector<int> of_cell;
      for (int replica = 0; replica < replicas_; ++replica)
        of_cell.push_back(rank(replica, stage, place));
      keep(same_cell_, of_cell);
    }
  }
  for (int replica = 0; replica < replicas_; ++replica) {
    std::vector<int> all;
    for (int stage = 0; stage < stages(); ++stage) {
      std::vector<int> of_stage;
      for (int place = 0; place < tensor(); ++place)
        of_stage.push_back(rank(replica, stage, place));
      keep(same_stage_, of_stage);
      all.insert(all.end(), of_stage.begin(), of_stage.end());
    }
    keep(whole_replica_, all);
    for (int place = 0; place < tensor(); ++place) {
      std::vector<int> of_pipeline;
      for (int stage = 0; stage < stages(); ++stage)
        of_pipeline.push_back(rank(replica, stage, place));
      keep(pipeline_, of_pipeline);
    }
  }
}

NeighbourLinks& MeshLinks::neighbours(std::size_t thread) {
  while (neighbours_.size() <= thread)
    neighbours_.push_back(std::make_unique<NeighbourLinks>(*pipeline_, options_));
  return *neighbours_[thread];
}

comm::Communicator& MeshLinks::slices(std::size_t thread) {
  std::vector<int> all(static_cast<std::size_t>(tensor()));
  std::iota(all.begin(), all.end(), 0);
  while (of_slices_.size() <= thread) of_slices_.push_back(same_stage_->split(all, options_));
  return *of_slices_[thread];
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
