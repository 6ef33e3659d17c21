// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// Bytes on their way into a non-blocking socket. Any thread may use it.
class Outgoing {
 public:
  explicit Outgoing(comm::Socket socket) : socket_(std::move(socket)) {}

  void send(const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    flush();
  }
  void advance() {
    const std::lock_guard lock(mutex_);
    flush();
  }
  void watch(std::vector<pollfd>& watched) const {
    const std::lock_guard lock(mutex_);
    if (socket_ && !bytes_.empty()) watched.push_back({socket_.fd(), POLLOUT, 0});
  }
  void close() {
    const std::lock_guard lock(mutex_);
    socket_.close();
  }

 private:
  void flush() {
    while (socket_ && !bytes_.empty()) {
      const ssize_t sent = ::send(socket_.fd(), bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
      if (sent < 0) return;  // later, or never: then the other direction closes
      bytes_.erase(0, static_cast<std::size_t>(sent));
    }
  }
  mutable std::mutex mutex_;
  comm::Socket socket_;
  std::string bytes_;
};

}  // namespace lockstep::cluster::detail
