// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/launch/hosts.h"

namespace lockstep::cluster::detail {

// A hosts file that somebody may change while the job runs.
class HostsFile {
 public:
  // Empty: there is none, and it never changes.
  explicit HostsFile(std::string path);

  // What it says now, where that is not what it said when it was looked at last. Throws as
  // read_hosts does, once for each change: one that is half written is read again when it is whole.
  std::optional<std::vector<HostSlots>> changed();

 private:
  struct Look {
    std::filesystem::file_time_type time = {};
    std::uintmax_t size = 0;
    bool operator==(const Look&) const = default;
  };
  Look look() const;

  std::string path_;
  Look last_;
};

}  // namespace lockstep::cluster::detail
