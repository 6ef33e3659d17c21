// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/stop_point.h"

#include <signal.h>

#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep::cli {

StopPoint StopPoint::from_environment(int rank) {
  StopPoint stop;
  const char* value = std::getenv("LOCKSTEP_STOP_AT");
  if (value == nullptr) return stop;
  const std::string text = value;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos)
    throw InvalidArgument("LOCKSTEP_STOP_AT: is '{}', expected RANK:POINT", text);
  if (text.substr(0, colon) == std::to_string(rank)) stop.point_ = text.substr(colon + 1);
  return stop;
}

void StopPoint::pass(std::string_view point) const {
  if (!point_.empty() && point_ == point) ::raise(SIGSTOP);
}

FailPoint FailPoint::from_environment(int rank) {
  FailPoint fail;
  const char* value = std::getenv("LOCKSTEP_FAIL_AT");
  if (value == nullptr) return fail;
  const std::string text = value;
  const std::size_t first = text.find(':'), last = text.rfind(':');
  const std::string how = last == std::string::npos ? "" : text.substr(last + 1);
  if (first == last || (how != "exit" && how != "throw"))
    throw InvalidArgument("LOCKSTEP_FAIL_AT: is '{}', expected RANK:STEP:exit or :throw", text);
  if (text.substr(0, first) != std::to_string(rank)) return fail;
  fail.step_ = std::atoll(text.substr(first + 1, last - first - 1).c_str());
  fail.throws_ = how == "throw";
  return fail;
}

void FailPoint::pass(std::int64_t step) const {
  if (step != step_) return;
  if (throws_) throw IoError("this worker fails after step {}, as it was asked to", step);
  std::_Exit(3);
}

}  // namespace lockstep::cli
