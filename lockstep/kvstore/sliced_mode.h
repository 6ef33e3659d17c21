// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/kvstore/allreduce.h"

namespace lockstep::kvstore {

// How the workers of a job have a net's slices between them: rank r has part r % workers of replica
// r / workers.
class SliceLinks {
 public:
  // Every rank makes one, with the same number. Throws InvalidArgument unless the ranks are whole
  // replicas. The communicator outlives it.
  SliceLinks(comm::Communicator& job, int workers, std::chrono::milliseconds timeout);

  int place() const { return place_; }      // of this worker, in its replica
  int workers() const { return workers_; }  // of a replica
  int replica() const { return replica_; }
  int replicas() const { return replicas_; }
  const comm::CallOptions& options() const { return options_; }

  // The workers that have the same slices, by replica; those of this replica, by place.
  comm::Communicator& same_slices() { return *same_slices_; }
  comm::Communicator& tensor() { return *tensor_; }
  // Of the replica's computing threads with this number. Every worker asks for as many, in order.
  comm::Communicator& of_thread(std::size_t thread);

 private:
  int workers_, place_, replica_, replicas_;
  comm::CallOptions options_;
  std::unique_ptr<comm::Communicator> same_slices_, tensor_;
  std::vector<std::unique_ptr<comm::Communicator>> of_threads_;
};

// Workers that have some of a net's slices each, and all that is not split: those of the same
// slices add their gradients and update their parameters as allreduce_mode does; a step counts
// where all say so. Its group is that of all workers.
class SlicedMode : public Mode {
 public:
  virtual SliceLinks& links() = 0;
};

// Throws InvalidArgument unless the workers are whole replicas of `workers`, and the algorithm
// keeps the canonical order. The communicator outlives it.
std::unique_ptr<SlicedMode> sliced_mode(comm::Communicator& communicator,
                                        const Membership& membership, int workers,
                                        const AllReduceOptions& options = {});

// Null where every worker has all slices.
SliceLinks* slice_links_of(Mode& mode);

}  // namespace lockstep::kvstore
