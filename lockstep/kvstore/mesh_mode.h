// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/mesh_links.h"

namespace lockstep::kvstore {

// Workers that have a cell of the net each: a stage, or some of its slices and all of it that is
// not split. Those of one cell add their gradients and update their parameters as allreduce_mode
// does; a step counts where all cells of all replicas say so. Its group is that of all workers.
class MeshMode : public Mode {
 public:
  virtual MeshLinks& links() = 0;
};

// Throws InvalidArgument unless the workers are whole replicas of that shape, and the algorithm
// keeps the canonical order. The communicator outlives it.
std::unique_ptr<MeshMode> mesh_mode(comm::Communicator& communicator, const Membership& membership,
                                    const ReplicaShape& shape,
                                    const AllReduceOptions& options = {});

// A group whose members have some of a job's parameters, and others have the rest.
class PartialGroup : public Group {
 public:
  // Sums of squares of all parameters' gradients, by piece, in the order in which one worker that
  // has all of them does.
  virtual std::vector<double> all_squares(std::span<const double> own) = 0;
  // Of each parameter that is here, the norms of all of it, given those of what is here.
  virtual std::vector<optim::PieceNorms> all_norms(std::span<const optim::PieceNorms> own) = 0;
};

// Null where every worker has all of the net.
MeshLinks* mesh_links_of(Mode& mode);
// The shards that this worker computes: those of its replica.
ShardRange range_of(Mode& mode, std::int64_t shards);
// Those of each worker, by rank.
std::vector<ShardRange> deal_of(Mode& mode, std::int64_t shards);
// Workers, or groups of workers that have the net between them, that share the shards.
int replicas_of(Mode& mode);

// allreduce_mode with another group for the votes: of as many members as the communicator has
// ranks.
std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator, std::unique_ptr<Group> group,
                                     const AllReduceOptions& options);

}  // namespace lockstep::kvstore
