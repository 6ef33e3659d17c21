// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/cluster/membership/job.h"
#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::train {

struct ServedModeOptions {
  std::string_view type = "ps_sync";  // of kvstore/served_type.h
  std::int64_t replicas = 1, staleness = 0;
  kvstore::Compression compression = {};
  std::chrono::milliseconds timeout{60'000};  // of one member for another
};

// A worker's way to the servers of its job. All workers call it, after they have agreed on an
// instruction set, which the servers take too. The job outlives the mode.
std::unique_ptr<kvstore::Mode> served_mode(cluster::Job& job,
                                           const ServedModeOptions& options = {});

struct ParameterServerOptions {
  int threads = 1;
  std::int64_t replicas = 1;
  std::chrono::milliseconds timeout{60'000};  // of one member for another
};

// What a process of the role server does: keeps parameters and updates them, with the workers'
// instruction set, until every worker has left the job. Throws what ended the job otherwise.
void run_parameter_server(cluster::Job& job, const ParameterServerOptions& options = {});

}  // namespace lockstep::train
