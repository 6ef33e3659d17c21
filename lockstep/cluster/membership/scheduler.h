// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "lockstep/cluster/membership/place.h"

namespace lockstep::cluster {

struct SchedulerOptions {
  std::chrono::milliseconds timeout{
      60'000};  // until all have joined; the place's, where it has one
  std::function<void(const std::string&)> log = {};
};

// The process of a job that coordinates the others and is none of its members
// (Place::is_scheduler): serves at the place's address until the job is over. Throws as Coordinator
// does.
void run_scheduler(const Place& place, const SchedulerOptions& options = {},
                   const std::stop_token& stop = {});

}  // namespace lockstep::cluster
