// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/doctor/host_facts.h"
#include "lockstep/cluster/membership/job.h"

namespace lockstep::cluster {

struct Examined {
  std::string host = {}, address = {}, interface = {};
  HostFacts facts = {};
  double clock_offset = 0;  // seconds that its clock is before rank 0's
};

// Between two members, over the transport that a job would use.
struct Link {
  int from = 0, to = 0;
  double latency = 0;              // seconds, one way
  double bandwidth = 0, back = 0;  // bytes a second, there and back; 0: not measured
  bool has_rate() const { return bandwidth > 0; }
};

// A member that cannot open a connection to another one.
struct Unreachable {
  int from = 0, to = 0;
  std::string reason = {};
};

struct Examination {
  int rank = 0;
  std::vector<Examined> members = {};
  std::vector<Unreachable> unreachable = {};
  std::vector<Link> links = {};
  std::string broken = {};  // why the links could not be measured
};

// Every member of a job calls it instead of making a Job. Members of different versions are
// examined too. `own` is what is known of this host. Throws as Job does when they cannot meet at
// all.
Examination examine(const Place& place, const JobOptions& options,
                    const HostFacts& own = look_at_host());

}  // namespace lockstep::cluster
