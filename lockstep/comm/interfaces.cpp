// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

namespace lockstep::comm {
namespace {

std::string address_of(const sockaddr* address) {
  if (address == nullptr) return "";
  const bool v4 = address->sa_family == AF_INET, v6 = address->sa_family == AF_INET6;
  if (!v4 && !v6) return "";
  char host[NI_MAXHOST] = "";
  ::getnameinfo(address, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6), host, sizeof host,
                nullptr, 0, NI_NUMERICHOST);
  return host;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Null when the host is not known.
Addresses resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const bool known = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list) == 0;
  return Addresses(known ? list : nullptr);
}

// Connecting a datagram socket sends nothing: it only asks the routes for the source address.
std::string source_towards(const addrinfo& to) {
  Socket socket(::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.fd(), to.ai_addr, to.ai_addrlen) != 0) return "";
  return local_endpoint(socket).host;
}

}  // namespace

std::vector<Interface> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const std::string address = address_of(one->ifa_addr);
    if ((one->ifa_flags & IFF_UP) != 0 && !address.empty())
      found.push_back({one->ifa_name, address});
  }
  return found;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string to_string(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& one : interfaces)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.name, one.address);
  return text.empty() ? "none" : text;
}

std::vector<Interface> find_interfaces(const std::string& name_or_address) {
  std::vector<Interface> found;
  const std::vector<Interface> all = list_interfaces();
  for (const Interface& one : all)
    if (one.name == name_or_address || one.address == name_or_address) found.push_back(one);
  if (found.empty())
    throw NotFound("interface '{}': there is none of this name or address that is up; there are {}",
                   name_or_address, to_string(all));
  return found;
}

std::vector<Interface> interfaces_of_kind(std::vector<Interface> interfaces,
                                          const Endpoint& endpoint) {
  const Addresses list = resolve(endpoint);
  std::erase_if(interfaces, [&](const Interface& one) {
    const int family = one.address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next)
      if (to->ai_family == family) return false;
    return list != nullptr;
  });
  return interfaces;
}

std::vector<Interface> interfaces_towards(const Endpoint& endpoint) {
  const Addresses list = resolve(endpoint);
  std::vector<Interface> found;
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    const std::string source = source_towards(*to);
    for (const Interface& one : list_interfaces())
      if (one.address == source) found.push_back(one);
  }
  return found;
}

}  // namespace lockstep::comm
