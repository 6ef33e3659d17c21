// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/unix_time.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/observe/job_status.h"
#include "lockstep/observe/run_folder.h"

namespace lockstep::cli {
namespace {

using observe::Verdict;

struct StatusCommandOptions {
  std::string run;
  bool watch = false, json = false;
  double every = 1;  // seconds
};

observe::JobStatus find_status(const std::string& run) {
  try {
    return observe::read_status(run);
  } catch (const NotFound&) {
    observe::RunFolder::open(run);  // says what is wrong with the folder
    throw NotFound("status: '{}' has no status.json yet: the run has just begun, or is older", run);
  }
}

bool is_good(Verdict::Kind kind) {
  return kind == Verdict::Kind::running || kind == Verdict::Kind::finished ||
         kind == Verdict::Kind::stopped;
}

// On a terminal each takes the place of the one before.
Verdict show(const StatusCommandOptions& o) {
  const double now = unix_seconds();
  const observe::JobStatus status = find_status(o.run);
  const Verdict verdict = judge(status, now);
  if (o.json) {
    fmt::print("{}\n", status_json(status, verdict));
  } else {
    if (o.watch && ::isatty(STDOUT_FILENO) == 1) fmt::print("\x1b[H\x1b[2J");
    fmt::print("{}", status_text(status, verdict, now));
  }
  std::fflush(stdout);
  return verdict;
}

// Until it is over, or whoever reads has read enough.
int show_status(const StatusCommandOptions& o) {
  while (true) {
    const Verdict verdict = show(o);
    const bool goes_on =
        verdict.kind == Verdict::Kind::running || verdict.kind == Verdict::Kind::stale;
    if (!o.watch || !goes_on || std::ferror(stdout) != 0)
      return is_good(verdict.kind) ? 0 : kFailure;
    std::this_thread::sleep_for(std::chrono::duration<double>(o.every));
  }
}

}  // namespace

void add_status_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<StatusCommandOptions>();
  CLI::App* command = app.add_subcommand("status", "How a job stands, and who waits for whom");
  command->group(kJobGroup);
  command->add_option("run", options->run, "The run's folder")->type_name("RUNDIR")->required();
  command->add_flag("--watch", options->watch, "Again and again, until it is over");
  command->add_flag("--json", options->json, "One JSON object a line");
  command->add_option("--every", options->every, "Between two looks, with --watch")
      ->type_name("SECONDS")
      ->check(seconds())
      ->default_str("1");
  command->footer(R"(Examples:
  lockstep status runs/mnist-lenet-1
  lockstep status run --watch
  lockstep status run --json | jq .step

The job writes its status into the run folder about once a second, so it can be asked for from
any terminal and any host that sees the folder. The exit status is 0 for a job that runs, has
finished or was stopped, and 1 for one that failed, is dead or has not been heard for 10 s.)");
  command->callback([&action, options] { action = [options] { return show_status(*options); }; });
}

}  // namespace lockstep::cli
