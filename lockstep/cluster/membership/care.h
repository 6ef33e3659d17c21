// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "lockstep/cluster/membership/membership_event.h"

namespace lockstep::cluster {

// How a job that survives the loss of workers is looked after where its first worker coordinates it
// (CoordinatorOptions): in mpirun, Slurm and Kubernetes.
struct Care {
  std::chrono::milliseconds heartbeat{3'000};
  int min_workers = 1, max_workers = 1 << 20;
  std::function<void(const MembershipEvent&)> on_event = {};  // by another thread
};

}  // namespace lockstep::cluster
