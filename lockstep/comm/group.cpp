// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/group.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/comm/transports/hybrid.h"
#include "lockstep/comm/transports/shm.h"
#include "lockstep/comm/transports/tcp.h"
#include "lockstep/comm/transports/ucx.h"
#include "lockstep/comm/transports/zmq.h"

namespace lockstep::comm {
namespace {

bool is_one_host(const std::vector<std::string>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](auto& host) { return host == hosts[0]; });
}

std::unique_ptr<Transport> connect_by_memory(const Bootstrap& bootstrap) {
  if (!is_one_host(bootstrap.hosts))
    throw InvalidArgument(
        "transport: shm connects the processes of one host; this job has hosts "
        "{} and more: use auto",
        bootstrap.hosts[0]);
  return connect_shm_group(bootstrap);
}

// Whether any two ranks share a host.
bool has_neighbours(std::vector<std::string> hosts) {
  std::sort(hosts.begin(), hosts.end());
  return std::adjacent_find(hosts.begin(), hosts.end()) != hosts.end();
}

template <Connect& connect>
std::unique_ptr<Transport> between_hosts(const Bootstrap& bootstrap) {
  auto between = connect(bootstrap);
  if (is_one_host(bootstrap.hosts) || !has_neighbours(bootstrap.hosts)) return between;
  return connect_hybrid(bootstrap, std::move(between));
}

// Every transport there is, by the name that users type.
constexpr TransportType kTransports[] = {{"auto", connect_group},
                                         {"shm", connect_by_memory},
                                         {"tcp", between_hosts<connect_tcp>},
                                         {"ucx", between_hosts<connect_ucx>},
                                         {"zmq", between_hosts<connect_zmq>}};

}  // namespace

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const TransportType& type : kTransports) names.emplace_back(type.name);
  return names;
}

const TransportType& find_transport(std::string_view name) {
  for (const TransportType& type : kTransports)
    if (type.name == (name.empty() ? "auto" : name)) return type;
  throw InvalidArgument("transport: '{}', expected one of {}", name,
                        fmt::join(transport_names(), ", "));
}

std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap) {
  return is_one_host(bootstrap.hosts) ? connect_shm_group(bootstrap)
                                      : between_hosts<connect_tcp>(bootstrap);
}

}  // namespace lockstep::comm
