// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/scheduler.h"

#include "lockstep/cluster/membership/coordinator.h"

namespace lockstep::cluster {

void run_scheduler(const Place& place, const SchedulerOptions& options,
                   const std::stop_token& stop) {
  CoordinatorOptions own;
  own.listen = place.coordinator;
  own.secret = place.secret;
  own.workers = place.workers;
  own.servers = place.servers;
  own.timeout = place.timeout.count() > 0 ? place.timeout : options.timeout;
  own.log = options.log;
  Coordinator(own).run(stop);
}

}  // namespace lockstep::cluster
