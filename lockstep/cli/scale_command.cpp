// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/elastic_commands.h"
#include "lockstep/cli/job_control.h"
#include "lockstep/cli/options.h"
#include "lockstep/cluster/membership/rendezvous.h"

namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAnswerTime{10'000};
constexpr milliseconds kLook{50};

struct ScaleOptions {
  std::string which;
  int workers = 0;
  std::int64_t worker = 0;
  double timeout = 60;  // seconds
};

// Until the members are as they were wanted. Returns them; throws IoError after the time-out.
Membership await_members(const JobControl& control, const ScaleOptions& o, const std::string& what,
                         const std::function<bool(const Membership&)>& is_so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(o.timeout);
  while (true) {
    const Membership now =
        cluster::query_membership(control.coordinator, control.secret, kAnswerTime).membership;
    if (is_so(now)) return now;
    if (std::chrono::steady_clock::now() >= end)
      throw IoError("{}: the job has {} workers after {} s; `lockstep status` says more", what,
                    now.count(Role::worker), o.timeout);
    std::this_thread::sleep_for(kLook);
  }
}

void say(const Membership& now) {
  const int workers = now.count(Role::worker);
  fmt::print("{} worker{} in generation {}\n", workers, workers == 1 ? "" : "s", now.generation);
}

int scale(const ScaleOptions& o) {
  const JobControl control = find_control(o.which, "scale");
  cluster::resize_job(control.coordinator, control.secret, o.workers, kAnswerTime);
  say(await_members(control, o, "scale",
                    [&](const Membership& now) { return now.count(Role::worker) == o.workers; }));
  return 0;
}

int leave(const ScaleOptions& o) {
  const JobControl control = find_control(o.which, "leave");
  cluster::dismiss_worker(control.coordinator, control.secret, o.worker, kAnswerTime);
  say(await_members(control, o, "leave", [&](const Membership& now) {
    return std::none_of(now.members.begin(), now.members.end(),
                        [&](const Member& one) { return one.id == o.worker; });
  }));
  return 0;
}

void add_common(CLI::App& c, ScaleOptions& o) {
  c.group(kJobGroup);
  c.add_option("job", o.which,
               "Its run folder; or where its coordinator listens, with the secret "
               "in LOCKSTEP_SECRET")
      ->type_name("RUNDIR|HOST:PORT")
      ->required();
  c.add_option("--timeout", o.timeout, "How long to wait until it is so")
      ->type_name("SECONDS")
      ->check(seconds())
      ->default_str("60");
}

}  // namespace

void add_scale_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = app.add_subcommand("scale", "Give a job more or fewer workers");
  add_common(*command, *options);
  command->add_option("workers", options->workers, "How many it is to have")
      ->type_name("N")
      ->transform(whole_number<int>(1, 1 << 20))
      ->required();
  command->footer(R"(Examples:
  lockstep scale runs/cifar-cnn-1 8
  lockstep scale run 2

The launcher starts more workers, or those of the highest ranks leave after their step. The
result has the same bits.)");
  command->callback([&action, options] { action = [options] { return scale(*options); }; });
}

void add_leave_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = app.add_subcommand("leave", "Let a worker of a job go after its step");
  add_common(*command, *options);
  command->add_option("--worker", options->worker, "Which: its number in `lockstep status`")
      ->type_name("K")
      ->transform(whole_number<std::int64_t>(0))
      ->required();
  command->footer(R"(Examples:
  lockstep leave run --worker 2

Nobody takes its place; the others go on. SIGTERM to the worker's process does the same.)");
  command->callback([&action, options] { action = [options] { return leave(*options); }; });
}

}  // namespace lockstep::cli
