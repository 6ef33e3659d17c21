// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/cli/train_options.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/exchange.h"

namespace lockstep::cli {

// `--workers W` without a rank: starts this command W times on this machine, with ranks, and waits.
// Returns the job's exit status.
int launch_workers(const TrainOptions& options);

// A launched worker's connection to the others.
struct Workers {
  std::unique_ptr<comm::Communicator> communicator;
  std::unique_ptr<kvstore::Exchange> exchange;  // null: there are no others
};
Workers connect_workers(const TrainOptions& options);

}  // namespace lockstep::cli
