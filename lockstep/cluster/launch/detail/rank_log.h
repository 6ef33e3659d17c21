// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/membership.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

// What one process of a job says, as it says it, in a file of its own. A job that goes on goes on
// in the same file.
class RankLog {
 public:
  RankLog() = default;  // none
  // `folder`/worker-0.log, server-1.log. Throws IoError.
  RankLog(const std::string& folder, Role role, int rank);

  // Empty, or, once, why nothing more is written.
  std::string write(std::string_view bytes);

 private:
  std::string path_;
  comm::Socket file_;
};

// Makes the folder. Throws IoError.
void make_log_folder(const std::string& folder);

}  // namespace lockstep::cluster::detail
