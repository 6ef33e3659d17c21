// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/launch/launch.h"
#include "lockstep/recipes/run_config.h"

namespace lockstep::cli {

// Whether these words are `lockstep train` that starts a run at any time anew, and does not go on.
bool starts_anew(const std::vector<std::string>& command);

// Whether they are `lockstep train` that goes on when workers are lost.
bool survives_losses(const std::vector<std::string>& command);

// What `lockstep train` says of its workers: how many there may be, how long one may be silent.
void take_limits(cluster::LaunchOptions& launch, const recipes::RunConfig& config);

// The job's store is that of `launch`, or else the one that `lockstep train` names. Throws
// WrongUsage where it has one and the program cannot go on without its launcher, as far as that is
// known before any worker runs it; a program that nobody knows the coordinator refuses.
void take_store(cluster::LaunchOptions& launch, const std::optional<recipes::RunConfig>& config);

// The run folder that these words of `lockstep train` name; empty: none, or they are no training.
std::string run_of(const std::vector<std::string>& command);

// How many a job has.
int worker_count(const cluster::LaunchOptions& options);

// What can be known to be wrong with a program before any worker runs it, when it is `lockstep
// train`: more workers than shards, servers that its store has no use for. `folder`: where the
// first worker runs, when that is this machine; else empty. Throws WrongUsage. What is wrong with
// the words themselves the program says. Returns what it is to train, where that is known.
std::optional<recipes::RunConfig> check_train_command(const std::vector<std::string>& command,
                                                      int workers, int servers,
                                                      const std::string& folder);

}  // namespace lockstep::cli
