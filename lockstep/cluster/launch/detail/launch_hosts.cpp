// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/launch_hosts.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cluster/launch/detail/process_limits.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {

std::vector<HostSlots> hosts_of(const LaunchOptions& options) {
  std::vector<HostSlots> hosts = options.hosts;
  if (hosts.empty()) hosts.push_back({"localhost", std::max(options.workers, 1)});
  return options.workers > 0 ? take_slots(std::move(hosts), options.workers) : hosts;
}

std::vector<std::int64_t> servers_of(std::size_t host, std::size_t hosts, int workers,
                                     int servers) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = host; i < static_cast<std::size_t>(servers); i += hosts)
    ids.push_back(workers + static_cast<std::int64_t>(i));
  return ids;
}

void check_process_limits(const std::vector<HostSlots>& hosts, int servers) {
  std::int64_t here = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (is_this_machine(hosts[i].name))
      here += hosts[i].slots +
              static_cast<std::int64_t>(servers_of(i, hosts.size(), 0, servers).size());
  if (here == 0) return;
  const std::string reason = why_too_many(here, find_process_limits());
  if (!reason.empty()) throw InvalidArgument("launch: {}", reason);
}

void check_options(const LaunchOptions& options) {
  if (options.command.empty()) throw InvalidArgument("launch: no program was named");
  if (options.workers < 0)
    throw InvalidArgument("launch: {} workers, expected 1 or more", options.workers);
  if (options.servers < 0)
    throw InvalidArgument("launch: {} servers, expected 0 or more", options.servers);
  for (const std::string& setting : options.environment)
    if (setting.find('=') == std::string::npos || setting.front() == '=')
      throw InvalidArgument("launch: environment '{}', expected NAME=VALUE", setting);
}

bool may_be_v6(const std::string& host) {
  if (host.find(':') != std::string::npos) return true;
  try {
    const auto usable = comm::interfaces_of_kind(comm::list_interfaces(), {host, 0});
    return std::any_of(usable.begin(), usable.end(), [](const comm::Interface& one) {
      return one.address.find(':') != std::string::npos;
    });
  } catch (const IoError&) {
    return false;  // a name that only the others know
  }
}

}  // namespace lockstep::cluster::detail
