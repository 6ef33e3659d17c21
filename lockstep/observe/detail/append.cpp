// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/detail/append.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::observe {
namespace {

// 0, or the error that stopped it.
int write_all(int descriptor, std::int64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    at += written;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

void append_whole(int descriptor, std::int64_t& size, std::string_view bytes,
                  const std::string& path) {
  const int error = write_all(descriptor, size, bytes);
  if (error == 0) {
    size += static_cast<std::int64_t>(bytes.size());
    return;
  }
  // Where even this fails, readers know what half a record is.
  [[maybe_unused]] const int ignored = ::ftruncate(descriptor, size);
  throw IoError("{}: cannot write: {}", path, std::strerror(error));
}

}  // namespace lockstep::observe
