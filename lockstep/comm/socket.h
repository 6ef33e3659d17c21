// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// Where a process listens: a host's name or its address, and a port.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
};

// host:port, or [address]:port for IPv6.
std::string to_string(const Endpoint& endpoint);
// Throws InvalidArgument.
Endpoint parse_endpoint(std::string_view text);

// The ports that listeners of a job may have; first 0: any that is free.
struct PortRange {
  std::uint16_t first = 0, last = 0;
  bool is_any() const { return first == 0; }
  bool operator==(const PortRange&) const = default;
};

// "A-B", "A"; empty: any. Throws InvalidArgument.
PortRange parse_ports(std::string_view text);
// Empty: any.
std::string to_string(const PortRange& ports);
// In which order a process tries them: each begins at another one. 0 where any will do.
std::vector<std::uint16_t> ports_to_try(const PortRange& ports);

// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_;
};

// All sockets here are non-blocking TCP, closed on exec, without Nagle's delay.

// Port 0 takes a free one of `ports`. Throws IoError naming the endpoint: in use, no such address,
// none of the ports is free.
Socket listen_on(const Endpoint& endpoint, const PortRange& ports = {});

// An invalid socket when nobody waits. Throws IoError.
Socket accept_from(const Socket& listener);

// One attempt, from the address `source` (empty: the system chooses). Throws IoError with the
// reason, which names both ends.
Socket connect_to(const Endpoint& endpoint, const std::string& source, Deadline deadline);

Endpoint local_endpoint(const Socket& socket);
Endpoint peer_endpoint(const Socket& socket);

// A peer whose host or network is gone closes the connection within about 7 s, traffic or not.
void keep_alive(const Socket& socket);

// Where BBR is the system's congestion control, sockets here begin with cubic or reno: BBR lets
// data go by a timer, which on a link of less than a millisecond collectives wait for half of the
// time, and a connection that had it once keeps the timer. This gives it back where the round trip
// turned out to be `far` or longer.
void restore_pacing(const Socket& connected,
                    std::chrono::microseconds far = std::chrono::milliseconds(1));

// How many milliseconds poll() may wait, at most `longest`.
int poll_milliseconds(Deadline deadline, int longest = 1000);

}  // namespace lockstep::comm
