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

}  // namespace lockstep::cli
