// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_again.h"

#include <algorithm>

#include "lockstep/base/print_error.h"

namespace lockstep::cli {
namespace {

// Killed, or lost with its host; not one that says what is wrong and ends.
bool is_loss(const cluster::LaunchResult& result) {
  const cluster::MemberEnd* culprit = result.culprit();
  return result.lost_state && result.stopped_by == 0 && culprit != nullptr &&
         (culprit->signal != 0 || !culprit->lost.empty());
}

bool has_word(const std::vector<std::string>& command, const std::string& word) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& one) {
    return one == word || one.starts_with(word + "=");
  });
}

}  // namespace

cluster::LaunchResult launch_until_done(cluster::LaunchOptions options, const GoOn& go_on) {
  const int most = options.max_restarts;
  while (true) {
    cluster::LaunchResult result = cluster::launch(options);
    const int left = options.max_restarts - result.restarts - 1;
    if (!is_loss(result) || left < 0) return result;
    std::vector<std::string> command = go_on();
    if (command.empty()) return result;
    options.max_restarts = left;
    options.command = std::move(command);
    print_error(
        "lockstep: {}; all workers that had the state are lost: the job begins again from the "
        "newest checkpoint (restart {} of {})\n",
        result.culprit()->str(), most - left, most);
  }
}

std::vector<std::string> resuming(std::vector<std::string> command, const std::string& folder) {
  if (!has_word(command, "--out")) command.insert(command.end(), {"--out", folder});
  if (!has_word(command, "--resume")) command.emplace_back("--resume");
  return command;
}

}  // namespace lockstep::cli
