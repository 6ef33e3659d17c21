// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {

FileLock::FileLock(const std::string& path, std::chrono::milliseconds deadline,
                   const std::function<void()>& waiting)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0) throw IoError("{}: cannot create: {}", path, std::strerror(errno));
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= end) {
      ::close(fd_);
      throw IoError("{}: another process still holds it after {} s", path,
                    static_cast<double>(deadline.count()) / 1000);
    }
    waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

FileLock::~FileLock() { ::close(fd_); }

}  // namespace lockstep::data::detail
