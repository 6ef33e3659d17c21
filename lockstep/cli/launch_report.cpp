// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_report.h"

#include <fmt/core.h>

#include <cstring>

#include "lockstep/base/print_error.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

namespace {

// A job that was stopped has the signal's status, whatever became of its workers then. Who did not
// end as asked is named: its checkpoint may not be there.
int report_stop(const cluster::LaunchResult& result, const std::string& how_to_go_on) {
  const cluster::MemberEnd* unruly = result.first_unruly();
  std::string what;
  if (result.ends.empty()) what = "before the job began";
  if (unruly != nullptr && !unruly->by_launcher) what = unruly->str();
  if (unruly != nullptr && unruly->by_launcher && !result.killed_because.empty())
    what = unruly->name() + " " + result.killed_because;
  if (!what.empty())
    print_error("lockstep: stopped by signal {} ({}): {}{}\n", result.stopped_by,
                strsignal(result.stopped_by), what,
                how_to_go_on.empty() ? "" : "; to go on: " + how_to_go_on);
  return 128 + result.stopped_by;
}

}  // namespace

int report_launch(const cluster::LaunchResult& result, const std::string& how_to_go_on) {
  const cluster::MemberEnd* culprit = result.culprit();
  if (culprit == nullptr) return result.is_good() ? 0 : report_stop(result, how_to_go_on);
  if (!culprit->last_lines.empty())
    print_error("{} said last:\n{}", culprit->name(), culprit->last_lines);
  const bool is_cut_off =
      culprit->signal != 0 || !culprit->lost.empty() || !culprit->missed.empty();
  print_error("lockstep: {}; the job is over{}\n", culprit->str(),
              is_cut_off && !how_to_go_on.empty() ? "; to go on: " + how_to_go_on : "");
  return culprit->status == kWrongUsage ? kWrongUsage : kFailure;
}

}  // namespace lockstep::cli
