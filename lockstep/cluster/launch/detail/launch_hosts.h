// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster::detail {

// With as many slots in all as the job has workers. Throws InvalidArgument.
std::vector<HostSlots> hosts_of(const LaunchOptions& options);
// The servers' ids follow those of the workers; each host in turn has one.
std::vector<std::int64_t> servers_of(std::size_t host, std::size_t hosts, int workers, int servers);
// Throws InvalidArgument: more than can run would begin, and end with an error of one of them.
void check_process_limits(const std::vector<HostSlots>& hosts, int servers);
// Throws InvalidArgument.
void check_options(const LaunchOptions& options);
// Whether a host with this name or address may come to us by IPv6.
bool may_be_v6(const std::string& host);

}  // namespace lockstep::cluster::detail
