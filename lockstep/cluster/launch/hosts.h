// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

// Workers of one host.
inline constexpr int kMostSlots = 4096;

// A host as ssh knows it (name, address, user@name, an alias of ssh's configuration), and how many
// workers it takes.
struct HostSlots {
  std::string name;
  int slots = 1;
};

// "a:2,b:2", "user@a", "[fe80::1]:4"; an IPv6 address without brackets has one worker. Throws
// InvalidArgument.
std::vector<HostSlots> parse_hosts(std::string_view list);

// One `host`, `host:N` or `host slots=N max-slots=M` a line, as Open MPI, MPICH and Horovod write
// them; # begins a comment. A host that is there again has more workers by that, as Open MPI counts
// them; `cpus=` and `count=` are slots, `user=` is who ssh is. Throws NotFound, IoError, or
// InvalidArgument with the line's number.
std::vector<HostSlots> read_hosts(const std::string& path);

// The first hosts in order, with `workers` slots in all. Throws InvalidArgument when there are
// fewer.
std::vector<HostSlots> take_slots(std::vector<HostSlots> hosts, int workers);

// As "fe80::1", "fe80::1%eth0".
bool is_ipv6_address(std::string_view text);

// localhost and this machine's own name need no ssh.
bool is_this_machine(const std::string& host);

}  // namespace lockstep::cluster
