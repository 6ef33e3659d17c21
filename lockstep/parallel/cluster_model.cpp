// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/cluster_model.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

// Of an Ethernet frame of 1514 bytes and the 24 between two of them, TCP's payload is 1448.
constexpr double kPayload = 1448.0 / 1538.0;
constexpr double kMessageSeconds = 5e-6;

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kRates[] = {{"gbit", 1e9 / 8 * kPayload},
                           {"mbit", 1e6 / 8 * kPayload},
                           {"kbit", 1e3 / 8 * kPayload},
                           {"bit", 1.0 / 8 * kPayload},
                           {"GB", 1e9},
                           {"MB", 1e6},
                           {"KB", 1e3}};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};

// A number and one of the units; NaN where it is none.
template <std::size_t count>
double parse_quantity(const std::string& text, const Unit (&units)[count]) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  for (const Unit& unit : units)
    if (end != text.c_str() && unit.name == end && std::isfinite(value) && value >= 0.0)
      return value * unit.factor;
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

LinkModel parse_link(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::string rate(text.substr(0, comma));
  const std::string latency(comma == std::string_view::npos ? "0s" : text.substr(comma + 1));
  const LinkModel link{parse_quantity(rate, kRates), parse_quantity(latency, kTimes),
                       kMessageSeconds};
  if (!(link.bytes_per_s > 0.0) || !(link.latency_s >= 0.0))
    throw InvalidArgument("links '{}': expected a rate and a latency, such as 25gbit,10us", text);
  return link;
}

int ClusterModel::host_of(int worker) const {
  return static_cast<int>(static_cast<std::int64_t>(worker) * hosts / workers);
}

std::vector<int> ClusterModel::host_of_each() const {
  std::vector<int> all;
  for (int worker = 0; worker < workers; ++worker) all.push_back(host_of(worker));
  return all;
}

ClusterModel ClusterModel::without_network() const {
  ClusterModel free = *this;
  free.network = free.inside = {};
  free.add_bytes_per_s = 0.0;
  free.send_s_per_byte = 0.0;
  return free;
}

}  // namespace lockstep::parallel
