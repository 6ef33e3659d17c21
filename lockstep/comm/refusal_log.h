// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/socket.h"

namespace lockstep::comm {

// Who was turned away by a listener, and why. Whoever comes again and again takes no more memory.
// From any thread.
class RefusalLog {
 public:
  void add(const Endpoint& from, const std::string& why);

  // The last few: "10.0.0.9:4711: it does not know the job's secret"
  std::vector<std::string> last() const;
  // Of hosts that have been turned away for the first time since the last call.
  std::vector<std::string> take_new();
  std::uint64_t count() const;
  // "10.0.0.9 (37), 10.0.0.8 (1)"
  std::string counts_by_host() const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::string> last_;  // guarded by mutex_, as all below
  std::vector<std::string> new_;
  std::map<std::string, std::uint64_t> counts_;  // by host; there is a limit to their number
  std::uint64_t count_ = 0;
};

}  // namespace lockstep::comm
