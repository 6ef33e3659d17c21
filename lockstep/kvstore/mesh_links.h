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

// Workers that have a replica of a net between them: its stages, and the slices of each of those.
struct ReplicaShape {
  int stages = 1, tensor = 1;
  int workers() const { return stages * tensor; }
};

// How the workers of a job have a net's cells: rank r has place r % tensor of stage
// r / tensor % stages of replica r / (stages * tensor). Those with one stage's slices are
// neighbours: they have the most to say to each other.
class MeshLinks {
 public:
  // Every rank makes one, with the same shape. Throws InvalidArgument unless the ranks are whole
  // replicas. The communicator outlives it.
  MeshLinks(comm::Communicator& job, const ReplicaShape& shape, std::chrono::milliseconds timeout);

  int stages() const { return shape_.stages; }
  int tensor() const { return shape_.tensor; }
  int replicas() const { return replicas_; }
  int stage() const { return stage_; }      // of this worker
  int place() const { return place_; }      // among those with its stage's slices
  int replica() const { return replica_; }  // that it is of
  bool has_stages() const { return shape_.stages > 1; }
  bool has_slices() const { return shape_.tensor > 1; }
  const comm::CallOptions& options() const { return options_; }

  // Of one replica: all its workers, stage by stage; those with this worker's place, by stage;
  // those with its stage, by place.
  comm::Communicator& whole_replica() { return *whole_replica_; }
  comm::Communicator& pipeline() { return *pipeline_; }
  comm::Communicator& same_stage() { return *same_stage_; }
  // Of all replicas, in their order: those with this worker's stage and place; with its stage.
  comm::Communicator& same_cell() { return *same_cell_; }
  comm::Communicator& stage_of_all() { return *stage_of_all_; }

  // Of the computing thread with this number: its neighbours in the pipeline, and those with its
  // stage's slices. Every worker of a replica asks for as many, in order.
  NeighbourLinks& neighbours(std::size_t thread);
  comm::Communicator& slices(std::size_t thread);

 private:
  void make_groups(comm::Communicator& job);

  ReplicaShape shape_;
  int stage_ = 0, place_ = 0, replica_ = 0, replicas_ = 1;
  comm::CallOptions options_;
  std::unique_ptr<comm::Communicator> whole_replica_, pipeline_, same_stage_, same_cell_,
      stage_of_all_;
  std::vector<std::unique_ptr<NeighbourLinks>> neighbours_;     // by thread
  std::vector<std::unique_ptr<comm::Communicator>> of_slices_;  // by thread
};

}  // namespace lockstep::kvstore
