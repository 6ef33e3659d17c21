// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster::detail {

// Which dead workers are replaced, and when. It knows no clock: time is given.
class Restarts {
 public:
  using Time = std::chrono::milliseconds;  // since any beginning
  static constexpr Time kFirstPause{100}, kLongestPause{30'000};

  explicit Restarts(int most) : most_(most) {}

  // Whether this end is an error of the program, and no machine's: it complains about its usage, or
  // says what another worker has said before it ended.
  bool is_program_error(const MemberEnd& end);
  // One is missing on this host: when another one is to be started there; nothing: never, there
  // have been too many. The pauses grow while starts fail soon.
  std::optional<Time> plan(std::size_t host, Time now);
  // The hosts on which one is due now.
  std::vector<std::size_t> take_due(Time now);
  // A worker that was started late computes with the others.
  void note_success() { failures_ = 0; }
  void cancel() { due_.clear(); }
  std::int64_t planned() const { return std::ssize(due_); }
  int count() const { return count_; }

 private:
  struct Due {
    Time when;
    std::size_t host;
  };
  int most_, count_ = 0, failures_ = 0;
  std::vector<Due> due_;
  std::map<std::string, int> said_;  // last words of those that ended by themselves
};

}  // namespace lockstep::cluster::detail
