// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/socket.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace lockstep::comm {
namespace {

constexpr std::string_view kPaced = "bbr";

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list);
  if (error != 0)
    throw IoError("{}: the host's address is not known: {}", to_string(endpoint),
                  error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  return Addresses(list);
}

void set_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.fd(), level, option, &value, sizeof value);
}

std::string congestion_control(const Socket& socket) {
  char name[64] = "";
  socklen_t size = sizeof name - 1;
  ::getsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, name, &size);
  return name;
}

bool set_congestion_control(const Socket& socket, std::string_view name) {
  const auto size = static_cast<socklen_t>(name.size());
  return ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), size) == 0;
}

// Not every user may choose cubic; reno is there for all.
void avoid_pacing(const Socket& socket) {
  if (congestion_control(socket) != kPaced) return;
  if (!set_congestion_control(socket, "cubic")) set_congestion_control(socket, "reno");
}

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw IoError("socket: cannot be made: {}", std::strerror(errno));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  avoid_pacing(socket);
  return socket;
}

Endpoint to_endpoint(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, static_cast<std::uint16_t>(std::atoi(port))};
}

// Empty when it worked, else the reason.
std::string bind_source(const Socket& socket, const std::string& source, int family) {
  if (source.empty()) return "";
  const Addresses own = resolve({source, 0}, AI_NUMERICHOST);
  if (own->ai_family != family) return "it is an address of another kind than the source's";
  if (::bind(socket.fd(), own->ai_addr, own->ai_addrlen) == 0) return "";
  return std::strerror(errno);
}

std::string wait_connected(const Socket& socket, Deadline deadline) {
  pollfd waiting{socket.fd(), POLLOUT, 0};
  while (::poll(&waiting, 1, poll_milliseconds(deadline)) <= 0)
    if (Clock::now() >= deadline) return "no answer";
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

std::string try_connect(const Socket& socket, const addrinfo& to, const std::string& source,
                        Deadline deadline) {
  const std::string refused = bind_source(socket, source, to.ai_family);
  if (!refused.empty()) return refused;
  if (::connect(socket.fd(), to.ai_addr, to.ai_addrlen) == 0) return "";
  return errno == EINPROGRESS ? wait_connected(socket, deadline) : std::strerror(errno);
}

// As TCP has measured it; that of the handshake, at least.
std::chrono::microseconds shortest_round_trip(const Socket& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  ::getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size);
  return std::chrono::microseconds(info.tcpi_min_rtt);
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
            : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

Endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  Endpoint result;
  if (colon != std::string_view::npos && colon > 0) {
    std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
    const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    const auto [end, error] = std::from_chars(port.begin(), port.end(), result.port);
    const bool whole = error == std::errc() && end == port.end() && !port.empty();
    result.host = host;
    if (whole && (bracketed || host.find(':') == std::string_view::npos)) return result;
  }
  throw InvalidArgument("address '{}': expected host:port or [address]:port", text);
}

PortRange parse_ports(std::string_view text) {
  PortRange ports;
  if (text.empty()) return ports;
  const std::size_t dash = text.find('-');
  const auto parse = [](std::string_view number, std::uint16_t& port) {
    const auto [end, error] = std::from_chars(number.begin(), number.end(), port);
    return error == std::errc() && end == number.end() && port > 0;
  };
  const bool is_good =
      parse(text.substr(0, dash), ports.first) &&
      parse(dash == std::string_view::npos ? text : text.substr(dash + 1), ports.last);
  if (!is_good || ports.first > ports.last)
    throw InvalidArgument("ports '{}': expected A-B, two numbers from 1 to 65535", text);
  return ports;
}

std::string to_string(const PortRange& ports) {
  return ports.is_any() ? "" : fmt::format("{}-{}", ports.first, ports.last);
}

std::vector<std::uint16_t> ports_to_try(const PortRange& ports) {
  if (ports.is_any()) return {0};
  const auto count = static_cast<std::uint32_t>(ports.last - ports.first) + 1;
  const std::uint32_t begin = static_cast<std::uint32_t>(::getpid()) * 2654435761U % count;
  std::vector<std::uint16_t> order;
  for (std::uint32_t i = 0; i < count; ++i)
    order.push_back(static_cast<std::uint16_t>(ports.first + (begin + i) % count));
  return order;
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

// 0, or why it cannot.
int try_listen(const Endpoint& endpoint, Socket& listener) {
  const Addresses list = resolve(endpoint, AI_PASSIVE);
  Socket socket = make_socket(list->ai_family);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  // "::" is for both kinds of addresses, whatever the system's default.
  if (list->ai_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.fd(), list->ai_addr, list->ai_addrlen) == 0 &&
      ::listen(socket.fd(), SOMAXCONN) == 0) {
    listener = std::move(socket);
    return 0;
  }
  return errno;
}

}  // namespace

Socket listen_on(const Endpoint& endpoint, const PortRange& ports) {
  const bool is_free_to_choose = endpoint.port == 0 && !ports.is_any();
  const std::vector<std::uint16_t> tried =
      is_free_to_choose ? ports_to_try(ports) : std::vector<std::uint16_t>{endpoint.port};
  for (const std::uint16_t port : tried) {
    Socket socket;
    const int error = try_listen({endpoint.host, port}, socket);
    if (error == 0) return socket;
    if (is_free_to_choose && (error == EADDRINUSE || error == EACCES)) continue;
    throw IoError("{}: cannot listen: {}", to_string(Endpoint{endpoint.host, port}),
                  std::strerror(error));
  }
  throw IoError("{}: cannot listen: none of the ports {} is free; give the job more (--ports)",
                endpoint.host, to_string(ports));
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

Socket connect_to(const Endpoint& endpoint, const std::string& source, Deadline deadline) {
  const Addresses list = resolve(endpoint, 0);
  std::string reasons;
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    Socket socket = make_socket(to->ai_family);
    const std::string reason = try_connect(socket, *to, source, deadline);
    if (reason.empty()) return socket;
    if (reasons.find(reason) == std::string::npos)
      reasons += (reasons.empty() ? "" : ", ") + reason;
  }
  throw IoError("{}: cannot connect{}: {}", to_string(endpoint),
                source.empty() ? "" : " from " + source, reasons);
}

Endpoint local_endpoint(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return to_endpoint(address, length);
}

Endpoint peer_endpoint(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return to_endpoint(address, length);
}

void keep_alive(const Socket& socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 7000);
}

void restore_pacing(const Socket& connected, std::chrono::microseconds far) {
  if (shortest_round_trip(connected) < far) return;
  const Socket fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fresh && congestion_control(fresh) == kPaced) set_congestion_control(connected, kPaced);
}

int poll_milliseconds(Deadline deadline, int longest) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, longest));
}

}  // namespace lockstep::comm
