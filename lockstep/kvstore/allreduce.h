// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// What the workers have together, each a part, instead of each a whole: nothing; what the rule
// keeps; the sums of gradients too; the weights too, which are gathered where they are needed.
enum class ShardState { none = 0, slots = 1, gradients = 2, parameters = 3 };
// Throws InvalidArgument for what is no stage.
ShardState parse_shard_state(std::int64_t stage);

struct AllReduceOptions {
  comm::Algorithm algorithm = comm::Algorithm::tree;
  Compression compression = {};
  std::chrono::milliseconds timeout = comm::CallOptions{}.timeout;
  ShardState shard_state = ShardState::none;  // changes no bit
};

// tree, hierarchical and central keep the canonical order: the same bits for any number of workers.
// Others, and compressed gradients, do for a fixed number only.
bool is_canonical(comm::Algorithm algorithm);

// "tree", "ring", "multi_ring", "hierarchical", "central", "native". Throws InvalidArgument, which
// lists them.
comm::Algorithm parse_algorithm(std::string_view name);

// Every worker has all weights; sums are made between them, and each updates its own copy, or,
// where state is sharded, its own pieces, and gets the others' from whom they are. Compressed
// gradients are gathered and added in the order of ranks: then the algorithm must be tree
// (InvalidArgument). The communicator outlives it. Every rank makes one; throws Unsupported when
// the transport has no all-reduce of its own and `native` is asked for.
std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator, const Membership& membership,
                                     const AllReduceOptions& options = {});
// Of a group that no coordinator has gathered.
std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator,
                                     const AllReduceOptions& options = {});

}  // namespace lockstep::kvstore
