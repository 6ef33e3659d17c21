// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/doctor/examination.h"

namespace lockstep::cluster {

// The lowest, the middle and the highest of some numbers; 0 when there are none.
struct Spread {
  double lowest = 0, middle = 0, highest = 0;
};
Spread spread_of(std::vector<double> values);

// A host as the others see it.
struct HostRates {
  std::string host = {};
  Spread sends = {}, receives = {};  // bytes a second
};

// The network between the hosts. Links inside a host are none of it.
struct NetworkSummary {
  std::vector<HostRates> hosts = {};  // in the order of ranks
  Spread rate = {}, latency = {};     // of all ways and links
  std::size_t links = 0, rated = 0;   // how many were tried, and with a rate

  const HostRates& find(const std::string& host) const;
};
NetworkSummary summarize_network(const Examination& examination);

}  // namespace lockstep::cluster
