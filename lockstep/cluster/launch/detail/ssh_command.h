// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster::detail {

// The words that run an agent on a host. No secret is among them: anybody may read them.
std::vector<std::string> ssh_command(const LaunchOptions& options, const std::string& host);

}  // namespace lockstep::cluster::detail
