// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/http_post.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {
namespace {

constexpr std::size_t kLongestReply = std::size_t{128} << 20;

void await(const comm::Socket& socket, short what, const comm::Endpoint& server,
           comm::Deadline deadline) {
  pollfd watched{socket.fd(), what, 0};
  while (::poll(&watched, 1, comm::poll_milliseconds(deadline)) <= 0)
    if (comm::Clock::now() >= deadline)
      throw IoError("{}: did not answer in time", to_string(server));
}

bool is_transient() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void send_all(const comm::Socket& socket, std::string_view bytes, const comm::Endpoint& server,
              comm::Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    else if (is_transient())
      await(socket, POLLOUT, server, deadline);
    else
      throw IoError("{}: {}", to_string(server), std::strerror(errno));
  }
}

std::string receive_all(const comm::Socket& socket, const comm::Endpoint& server,
                        comm::Deadline deadline) {
  std::string bytes;
  char block[16384];
  while (bytes.size() <= kLongestReply) {
    const ssize_t got = ::recv(socket.fd(), block, sizeof block, 0);
    if (got > 0)
      bytes.append(block, static_cast<std::size_t>(got));
    else if (got == 0)
      return bytes;
    else if (is_transient())
      await(socket, POLLIN, server, deadline);
    else
      throw IoError("{}: {}", to_string(server), std::strerror(errno));
  }
  throw IoError("{}: its answer is longer than {} bytes", to_string(server), kLongestReply);
}

HttpReply parse(const std::string& text, const comm::Endpoint& server) {
  const std::size_t end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.") || text.size() < 12 || end == std::string::npos)
    throw IoError("{}: what answers there is no HTTP server, or broke off", to_string(server));
  HttpReply reply{std::atoi(text.c_str() + 9), text.substr(end + 4)};
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const std::size_t length = text.find(kLength);
  if (length < end &&
      reply.body.size() < std::strtoull(text.c_str() + length + kLength.size(), nullptr, 10))
    throw IoError("{}: its answer broke off", to_string(server));
  return reply;
}

}  // namespace

// HTTP 1.0, in which the end of the connection is the end of the answer.
HttpReply http_post(const comm::Endpoint& server, const std::string& path, const std::string& body,
                    comm::Deadline deadline) {
  const comm::Socket socket = comm::connect_to(server, "", deadline);
  send_all(socket,
           fmt::format("POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\n"
                       "Content-Length: {}\r\n\r\n{}",
                       path, to_string(server), body.size(), body),
           server, deadline);
  return parse(receive_all(socket, server, deadline), server);
}

}  // namespace lockstep::cluster::detail
