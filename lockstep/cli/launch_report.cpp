// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "lockstep/cli/command.h"
#include "lockstep/cli/print_error.h"

namespace lockstep::cli {

int report_launch(const cluster::LaunchResult& result, const std::string& how_to_go_on) {
  const cluster::WorkerEnd* culprit = result.culprit();
  const bool all_good = std::all_of(result.ends.begin(), result.ends.end(),
                                    [](const auto& end) { return end.is_good(); });
  if (culprit == nullptr) return all_good ? 0 : 128 + result.stopped_by;
  if (!culprit->last_lines.empty())
    print_error("worker {} said last:\n{}", culprit->rank, culprit->last_lines);
  const bool was_killed = culprit->signal != 0 || !culprit->lost.empty();
  print_error("lockstep: {}; the job is over{}\n", culprit->str(),
              was_killed && !how_to_go_on.empty() ? "; to go on: " + how_to_go_on : "");
  return culprit->status == kWrongUsage ? kWrongUsage : kFailure;
}

}  // namespace lockstep::cli
