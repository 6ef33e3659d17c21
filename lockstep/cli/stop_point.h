// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::cli {

// A place in a worker's run at which it stops itself (SIGSTOP), so that a test sees what the others
// make of it: LOCKSTEP_STOP_AT=RANK:POINT.
class StopPoint {
 public:
  StopPoint() = default;
  // Of this rank. Throws InvalidArgument where the variable makes no sense.
  static StopPoint from_environment(int rank);
  void pass(std::string_view point) const;

 private:
  std::string point_;  // empty: none
};

// A step after which a worker ends in the middle of everything, for tests as well:
// LOCKSTEP_FAIL_AT=RANK:STEP:exit, or :throw for an error that it says.
class FailPoint {
 public:
  FailPoint() = default;
  // Of this rank. Throws InvalidArgument where the variable makes no sense.
  static FailPoint from_environment(int rank);
  void pass(std::int64_t step) const;

 private:
  std::int64_t step_ = -1;  // none
  bool throws_ = false;
};

}  // namespace lockstep::cli
