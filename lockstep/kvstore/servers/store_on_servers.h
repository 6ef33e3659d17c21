// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/kvstore.h"
#include "lockstep/kvstore/servers/pace.h"
#include "lockstep/kvstore/servers/served_job.h"

namespace lockstep::kvstore {

// A store whose values the job's servers have, and update. A push returns when it is on its way;
// what went wrong with it is an error of the next call with its key, or of barrier(). The
// communicator, of the workers, outlives the store; null: there is one.
std::unique_ptr<KVStore> store_on_servers(const ServedJob& job, comm::Communicator* communicator,
                                          const Pace& pace = {});

}  // namespace lockstep::kvstore
