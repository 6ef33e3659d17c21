// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/job_registry.h"

#include <cstdlib>
#include <filesystem>

#include "lockstep/base/paths.h"
#include "lockstep/base/unix_time.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLauncher = "LOCKSTEP_LAUNCHER";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string list_folder() {
  std::error_code error;
  const std::string runtime = variable("XDG_RUNTIME_DIR"), state = variable("XDG_STATE_HOME"),
                    home = variable("HOME");
  if (!runtime.empty() && fs::is_directory(runtime, error)) return runtime + "/lockstep/jobs";
  if (!state.empty()) return state + "/lockstep/jobs";
  return home.empty() ? "" : home + "/.local/state/lockstep/jobs";
}

observe::JobEntry own_entry(observe::JobEntry::Kind kind) {
  std::error_code error;
  return {.kind = kind,
          .process = own_mark(),
          .command = shell_line(own_words()),
          .folder = fs::current_path(error).string(),
          .began = unix_seconds()};
}

}  // namespace

observe::JobList job_list() { return observe::JobList(list_folder()); }

observe::ListedJob list_launcher(cluster::LaunchOptions& options) {
  const observe::JobEntry entry = own_entry(observe::JobEntry::Kind::launcher);
  options.environment.push_back(std::string(kLauncher) + "=" + to_string(entry.process));
  return observe::ListedJob(job_list(), entry);
}

ProcessMark launcher_mark() {
  const ProcessMark launcher = parse_mark(variable(kLauncher));
  return launcher.pid > 0 ? launcher : own_mark();
}

std::unique_ptr<observe::ListedJob> list_run(
    const std::string& folder, const std::optional<cluster::Place::Launcher>& launcher) {
  using Kind = observe::JobEntry::Kind;
  const std::string run = absolute_path(folder);
  if (launcher == cluster::Place::Launcher::lockstep) {
    job_list().set_run(launcher_mark(), run);
    return nullptr;
  }
  observe::JobEntry entry = own_entry(launcher ? Kind::worker : Kind::alone);
  entry.run = run;
  return std::make_unique<observe::ListedJob>(job_list(), entry);
}

}  // namespace lockstep::cli
