// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_again.h"

#include <algorithm>

#include "lockstep/base/print_error.h"

namespace lockstep::cli {
namespace {

// Killed, or lost with its host; not one that says what is wrong and ends.
bool is_loss(const cluster::LaunchResult& result, AfterLoss after_loss) {
  const cluster::MemberEnd* culprit = result.culprit();
  const bool lost_state = result.lost_state || after_loss == AfterLoss::begins_again;
  return lost_state && result.stopped_by == 0 && culprit != nullptr &&
         (culprit->signal != 0 || !culprit->lost.empty());
}

// The same each time would be the program's fault, whatever ends it.
constexpr int kMostEarly = 3;

bool is_early(const cluster::LaunchResult& result) {
  return result.lost_early && result.stopped_by == 0 && result.culprit() != nullptr;
}

bool has_word(const std::vector<std::string>& command, const std::string& word) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& one) {
    return one == word || one.starts_with(word + "=");
  });
}

}  // namespace

cluster::LaunchResult launch_until_done(cluster::LaunchOptions options, const GoOn& go_on,
                                        AfterLoss after_loss) {
  const int most = options.max_restarts;
  for (int early = 0;;) {
    cluster::LaunchResult result = cluster::launch(options);
    const int left = options.max_restarts - result.restarts - 1;
    const bool was_early =
        after_loss == AfterLoss::goes_on && is_early(result) && early++ < kMostEarly;
    if ((!is_loss(result, after_loss) && !was_early) || left < 0) return result;
    std::vector<std::string> command = go_on();
    if (command.empty() && !was_early) return result;
    options.max_restarts = left;
    if (!command.empty()) options.command = std::move(command);
    if (was_early) {
      print_error("lockstep: {}, before the first step: the job begins again (restart {} of {})\n",
                  result.culprit()->str(), most - left, most);
      continue;
    }
    print_error(
        "lockstep: {}; {}: the job begins again from the newest checkpoint (restart {} of {})\n",
        result.culprit()->str(),
        after_loss == AfterLoss::begins_again ? "nobody else had its part of the state"
                                              : "all workers that had the state are lost",
        most - left, most);
  }
}

std::vector<std::string> resuming(std::vector<std::string> command, const std::string& folder) {
  if (!has_word(command, "--out")) command.insert(command.end(), {"--out", folder});
  if (!has_word(command, "--resume")) command.emplace_back("--resume");
  return command;
}

}  // namespace lockstep::cli
