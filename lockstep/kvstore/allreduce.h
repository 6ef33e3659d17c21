// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

struct AllReduceOptions {
  comm::Algorithm algorithm = comm::Algorithm::tree;
  Compression compression = {};
  std::chrono::milliseconds timeout = comm::CallOptions{}.timeout;
};

// tree, hierarchical and central keep the canonical order: the same bits for any number of workers.
// Others, and compressed gradients, do for a fixed number only.
bool is_canonical(comm::Algorithm algorithm);

// "tree", "ring", "multi_ring", "hierarchical", "central", "native". Throws InvalidArgument, which
// lists them.
comm::Algorithm parse_algorithm(std::string_view name);

// Every worker has all weights; sums are made between them, and each updates its own copy.
// Compressed gradients are gathered and added in the order of ranks: then the algorithm must be
// tree (InvalidArgument). The communicator outlives it. Every rank makes one; throws Unsupported
// when the transport has no all-reduce of its own and `native` is asked for.
std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator, const Membership& membership,
                                     const AllReduceOptions& options = {});
// Of a group that no coordinator has gathered.
std::unique_ptr<Mode> allreduce_mode(comm::Communicator& communicator,
                                     const AllReduceOptions& options = {});

}  // namespace lockstep::kvstore
