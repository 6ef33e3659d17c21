// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {

void make_log_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0)
    throw IoError("launch: the folder for logs '{}' cannot be written to: {}", folder,
                  error ? error.message() : std::strerror(errno));
}

RankLog::RankLog(const std::string& folder, Role role, int rank)
    : path_(fmt::format("{}/{}-{}.log", folder, to_string(role), rank)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (!file_) throw IoError("launch: '{}' cannot be written: {}", path_, std::strerror(errno));
}

std::string RankLog::write(std::string_view bytes) {
  while (file_ && !bytes.empty()) {
    const ssize_t written = ::write(file_.fd(), bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const std::string why = std::strerror(errno);
      file_.close();
      return fmt::format("launch: '{}' cannot be written any more: {}", path_, why);
    }
  }
  return {};
}

}  // namespace lockstep::cluster::detail
