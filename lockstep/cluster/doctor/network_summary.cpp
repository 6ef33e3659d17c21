// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/network_summary.h"

#include <algorithm>
#include <map>

#include "lockstep/base/error.h"

namespace lockstep::cluster {
namespace {

struct Rates {
  std::vector<double> sends = {}, receives = {};
};

}  // namespace

// Of an even number the middle is the higher of two: what a host has with half of the others, it
// can.
Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

const HostRates& NetworkSummary::find(const std::string& host) const {
  const auto found = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const HostRates& one) { return one.host == host; });
  check(found != hosts.end(), "a link of a host that is not there");
  return *found;
}

NetworkSummary summarize_network(const Examination& examination) {
  NetworkSummary summary;
  std::map<std::string, Rates> rates;
  for (const Examined& one : examination.members)
    if (rates.try_emplace(one.host).second) summary.hosts.push_back({one.host});
  std::vector<double> all, latencies;
  for (const Link& link : examination.links) {
    const std::string &from = examination.members[static_cast<std::size_t>(link.from)].host,
                      &to = examination.members[static_cast<std::size_t>(link.to)].host;
    if (from == to) continue;
    ++summary.links;
    latencies.push_back(link.latency);
    if (!link.has_rate()) continue;
    ++summary.rated;
    all.insert(all.end(), {link.bandwidth, link.back});
    rates[from].sends.push_back(link.bandwidth);
    rates[to].receives.push_back(link.bandwidth);
    rates[to].sends.push_back(link.back);
    rates[from].receives.push_back(link.back);
  }
  for (HostRates& host : summary.hosts) {
    host.sends = spread_of(rates[host.host].sends);
    host.receives = spread_of(rates[host.host].receives);
  }
  summary.rate = spread_of(all);
  summary.latency = spread_of(latencies);
  return summary;
}

}  // namespace lockstep::cluster
