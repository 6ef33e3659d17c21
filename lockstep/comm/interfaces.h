// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/socket.h"

namespace lockstep::comm {

// One address of a network interface that is up.
struct Interface {
  std::string name;
  std::string address;
};

std::vector<Interface> list_interfaces();

bool is_loopback(const std::string& address);

// eth0 (10.0.0.1), lo (127.0.0.1)
std::string to_string(const std::vector<Interface>& interfaces);

// Those of the interface with this name, or the one with this address. Throws NotFound, which lists
// what there is.
std::vector<Interface> find_interfaces(const std::string& name_or_address);

// Those whose addresses are of a kind (IPv4, IPv6) that the endpoint's host has.
std::vector<Interface> interfaces_of_kind(std::vector<Interface> interfaces,
                                          const Endpoint& endpoint);

// The interface from which the system's routes reach an endpoint; empty when there is none.
std::vector<Interface> interfaces_towards(const Endpoint& endpoint);

}  // namespace lockstep::comm
