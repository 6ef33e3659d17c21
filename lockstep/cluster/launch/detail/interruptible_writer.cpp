// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/interruptible_writer.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::cluster::detail {
namespace {

constexpr int kLookEveryMs = 100;

}  // namespace

// A pipe that is ready takes PIPE_BUF bytes without making us wait.
void InterruptibleWriter::write(int stream, std::string_view bytes) const {
  while (!bytes.empty()) {
    pollfd watched[] = {{stream, POLLOUT, 0}, {wake_, POLLIN, 0}};
    if (::poll(watched, 1, 0) <= 0) {
      if (!look_()) return;
      ::poll(watched, 2, kLookEveryMs);
      continue;
    }
    const ssize_t written =
        ::write(stream, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
  }
}

}  // namespace lockstep::cluster::detail
