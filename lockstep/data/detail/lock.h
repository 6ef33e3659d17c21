// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace lockstep::data::detail {

// Holds a lock file, for this process and against others; the kernel frees it when we die.
class FileLock {
 public:
  // Throws IoError when another holds it past the deadline. `waiting` is called now and then.
  FileLock(const std::string& path, std::chrono::milliseconds deadline,
           const std::function<void()>& waiting);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace lockstep::data::detail
