// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "lockstep/base/membership.h"
#include "lockstep/cluster/launch/detail/rank_log.h"

namespace lockstep::cluster::detail {

// What a process of the job says, on its way to our own standard output and error: that of the
// first worker as it is, lines of the others to standard error with rank and host before them.
class WorkerOutput {
 public:
  using Print = std::function<void(int stream, std::string_view bytes)>;  // stream: 1 or 2
  WorkerOutput(Role role, int rank, const std::string& host, Print print, RankLog log = {});
  void add(int stream, std::string_view bytes);  // stream: 1 or 2
  // Of a job whose first worker is lost, another one becomes it.
  void set_first(bool is_first);
  // A last line without an end gets one.
  void finish();
  std::string last_lines() const;

 private:
  void keep_lines(std::string& unfinished);
  Print print_;
  RankLog log_;
  bool is_first_;
  std::string prefix_;
  std::string unfinished_[2];
  std::deque<std::string> lines_;
};

}  // namespace lockstep::cluster::detail
