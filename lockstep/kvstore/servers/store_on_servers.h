// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/kvstore.h"
#include "lockstep/kvstore/servers/served_job.h"

namespace lockstep::kvstore {

// How far the workers of a store may be apart.
struct Pace {
  std::string_view type = "ps_sync";
  // A push is added to those of all workers before it counts, so that all have the same values;
  // otherwise it counts as it comes.
  bool in_step = true;
  // A worker that has pushed so many times more than the slowest one waits for it.
  std::uint64_t bound = ~std::uint64_t{0};
};

// A store whose values the job's servers have, and update. A push returns when it is on its way;
// what went wrong with it is an error of the next call with its key, or of barrier(). The
// communicator, of the workers, outlives the store; null: there is one.
std::unique_ptr<KVStore> store_on_servers(const ServedJob& job, comm::Communicator* communicator,
                                          const Pace& pace = {});

}  // namespace lockstep::kvstore
