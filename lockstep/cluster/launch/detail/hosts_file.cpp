// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/hosts_file.h"

#include <utility>

namespace lockstep::cluster::detail {

HostsFile::HostsFile(std::string path) : path_(std::move(path)), last_(look()) {}

// Of a file that is not there, nothing.
HostsFile::Look HostsFile::look() const {
  std::error_code error;
  Look now;
  if (path_.empty()) return now;
  now.time = std::filesystem::last_write_time(path_, error);
  now.size = std::filesystem::file_size(path_, error);
  return error ? Look() : now;
}

std::optional<std::vector<HostSlots>> HostsFile::changed() {
  const Look now = look();
  if (now == last_) return {};
  last_ = now;
  if (now == Look()) return {};  // whoever replaces it has not done so yet
  return read_hosts(path_);
}

}  // namespace lockstep::cluster::detail
