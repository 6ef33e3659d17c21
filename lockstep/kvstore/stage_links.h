// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::kvstore {

// A computing thread's links to those with its number in the neighbouring stages, one for each
// direction, so that what goes up and what goes down never waits for one another.
class NeighbourLinks {
 public:
  // Every stage of the pipeline makes one, by its rank.
  NeighbourLinks(comm::Communicator& pipeline, const comm::CallOptions& options);

  // One after the other, to or from a neighbour. Sending goes on while the caller does something
  // else, and reads the bytes until it is done.
  using Parts = std::vector<std::span<std::byte>>;
  void receive_from_below(const Parts& parts) { receive(*from_below_, parts, 0); }
  void receive_from_above(const Parts& parts) { receive(*from_above_, parts, 1); }
  comm::WorkPtr start_sending_above(const Parts& parts) { return send(*to_above_, parts, 1); }
  comm::WorkPtr start_sending_below(const Parts& parts) { return send(*to_below_, parts, 0); }

 private:
  void receive(comm::Communicator& link, const Parts& parts, int from) const;
  comm::WorkPtr send(comm::Communicator& link, const Parts& parts, int to) const;

  comm::CallOptions options_;
  std::unique_ptr<comm::Communicator> from_below_, to_above_, from_above_, to_below_;
};

// How the workers of a job are pipelines: rank r has stage r % stages of replica r / stages.
class StageLinks {
 public:
  // Every rank makes one, with the same number. Throws InvalidArgument unless the ranks are whole
  // pipelines. The communicator outlives it.
  StageLinks(comm::Communicator& job, int stages, std::chrono::milliseconds timeout);

  int stage() const { return stage_; }
  int stages() const { return stages_; }
  int replica() const { return replica_; }
  int replicas() const { return replicas_; }
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == stages_; }

  const comm::CallOptions& options() const { return options_; }

  // The workers that have this stage, by replica; those of this pipeline, by stage.
  comm::Communicator& same_stage() { return *same_stage_; }
  comm::Communicator& pipeline() { return *pipeline_; }

  // Of the computing thread with this number. Every stage of a pipeline asks for as many, in order.
  NeighbourLinks& of_thread(std::size_t thread);

 private:
  int stages_, stage_ = 0, replica_ = 0, replicas_ = 1;
  comm::CallOptions options_;
  std::unique_ptr<comm::Communicator> same_stage_, pipeline_;
  std::vector<std::unique_ptr<NeighbourLinks>> of_threads_;
};

}  // namespace lockstep::kvstore
