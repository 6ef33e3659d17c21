// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/paths.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/unix_time.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/cli/options.h"
#include "lockstep/observe/job_status.h"
#include "lockstep/observe/table.h"
#include "lockstep/observe/text.h"
#include "lockstep/train/status_reporter.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using observe::JobEntry;

constexpr auto kLook = std::chrono::milliseconds(50);
// Between the two signals that mean "at once": one that comes with the first is one wish.
constexpr auto kSecondSignal = std::chrono::milliseconds(300);

// Nothing where the run says nothing yet.
std::optional<observe::JobStatus> status_of(const std::string& run) {
  try {
    if (!run.empty()) return observe::read_status(run);
  } catch (const Error&) {
  }
  return {};
}

std::string step_text(const std::optional<observe::JobStatus>& status) {
  if (!status) return "-";
  return fmt::format("{} of {}", observe::format_count(status->step),
                     observe::format_count(status->total_steps));
}

std::string state_of(const JobEntry& entry) {
  return look_at_process(entry.process) == ProcessState::stopped ? "stopped (SIGSTOP)" : "running";
}

std::string jobs_json(const std::vector<JobEntry>& jobs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JobEntry& job : jobs)
    list.push_back({{"name", job.name()},
                    {"pid", job.process.pid},
                    {"host", job.process.host},
                    {"run", job.run},
                    {"folder", job.folder},
                    {"command", job.command},
                    {"began", job.began}});
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

int show_jobs(bool json) {
  const std::vector<JobEntry> jobs = job_list().read();
  if (json) {
    fmt::print("{}\n", jobs_json(jobs));
    return 0;
  }
  if (jobs.empty()) {
    fmt::print("no jobs of this user on this host\n");
    return 0;
  }
  observe::Table table({{"name"},
                        {"pid", observe::Align::kRight},
                        {"for", observe::Align::kRight},
                        {"step", observe::Align::kRight},
                        {"state"},
                        {"run"}});
  for (const JobEntry& job : jobs)
    table.add({job.name(), std::to_string(job.process.pid),
               observe::format_duration(std::max(0.0, unix_seconds() - job.began)),
               step_text(status_of(job.run)), state_of(job), job.run.empty() ? "-" : job.run});
  fmt::print("{}", table.str());
  return 0;
}

struct StopOptions {
  std::string which;
  bool now = false;
  double timeout = 60;  // seconds
};

bool is_meant(const JobEntry& job, const std::string& which) {
  return job.run == absolute_path(which) || job.name() == which ||
         std::to_string(job.process.pid) == which;
}

// None: it is not a job of this host.
std::optional<JobEntry> find_job(const std::string& which) {
  std::vector<JobEntry> found;
  for (const JobEntry& job : job_list().read())
    if (is_meant(job, which)) found.push_back(job);
  if (found.empty()) return {};
  if (found.size() == 1) return found[0];
  std::string names;
  for (const JobEntry& job : found)
    names += fmt::format("{}{} (pid {})", names.empty() ? "" : ", ",
                         job.run.empty() ? job.command : job.run, job.process.pid);
  throw WrongUsage(fmt::format(
      "stop: '{}' is the name of several jobs: {}; give a pid or a run folder", which, names));
}

template <class Condition>
bool wait_for(const Condition& is_so, std::chrono::duration<double> longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

void send(const ProcessMark& process, int signal) {
  if (look_at_process(process) == ProcessState::gone) return;
  if (::kill(static_cast<pid_t>(process.pid), signal) != 0 && errno == EPERM)
    throw InvalidArgument("stop: process {} is another user's", process.pid);
}

// A launcher that was stopped (Ctrl-Z) hears of it when it goes on.
void ask_by_signal(const ProcessMark& process, bool now) {
  send(process, SIGTERM);
  send(process, SIGCONT);
  if (!now) return;
  const auto is_gone = [&] { return look_at_process(process) == ProcessState::gone; };
  if (!wait_for(is_gone, kSecondSignal)) send(process, SIGTERM);
}

void say_stopped(const std::string& name, const std::string& run) {
  const auto status = status_of(run);
  const bool is_told = status && status->state == observe::JobStatus::State::stopped;
  fmt::print("stopped {}{}{}\n", name,
             status ? fmt::format(" at step {}", observe::format_count(status->step)) : "",
             is_told && !status->message.empty() ? "; " + status->message : "");
}

int stop_here(const JobEntry& job, const StopOptions& o) {
  if (job.kind == JobEntry::Kind::worker && !o.now)
    train::request_stop(job.run);
  else
    ask_by_signal(job.process, o.now);
  const auto is_gone = [&] { return look_at_process(job.process) == ProcessState::gone; };
  if (!wait_for(is_gone, std::chrono::duration<double>(o.timeout)))
    throw IoError("stop: {} (pid {}) still runs after {} s; --now ends it at once", job.name(),
                  job.process.pid, o.timeout);
  say_stopped(job.name(), job.run);
  return 0;
}

// A job of another host, whose run folder is seen from here too.
int stop_elsewhere(const observe::JobStatus& status, const StopOptions& o) {
  if (o.now)
    throw WrongUsage(fmt::format("stop --now: the job runs on {}; expected there, or without --now",
                                 status.launcher.host));
  const std::string folder = absolute_path(o.which);
  train::request_stop(folder);
  const auto is_over = [&] {
    const auto latest = status_of(folder);
    return latest && latest->is_over();
  };
  if (!wait_for(is_over, std::chrono::duration<double>(o.timeout)))
    throw IoError("stop: {} on {} was asked, and has not stopped after {} s", o.which,
                  status.writer.host, o.timeout);
  say_stopped(o.which, folder);
  return 0;
}

int stop_job(const StopOptions& o) {
  if (const auto job = find_job(o.which)) return stop_here(*job, o);
  const auto status = status_of(o.which);
  if (!status)
    throw NotFound(
        "stop: '{}' is no job of this host and no run folder; `lockstep jobs` lists them", o.which);
  const observe::Verdict verdict = judge(*status, unix_seconds());
  if (verdict.kind != observe::Verdict::Kind::running) {
    fmt::print("{} does not run: it is {}{}{}\n", o.which, to_string(verdict.kind),
               verdict.reason.empty() ? "" : ": ", verdict.reason);
    return verdict.kind == observe::Verdict::Kind::stale ? kFailure : 0;
  }
  const ProcessState launcher = look_at_process(status->launcher);
  if (launcher == ProcessState::elsewhere || (launcher == ProcessState::gone && !o.now))
    return stop_elsewhere(*status, o);
  const std::string run = absolute_path(o.which);
  return stop_here({.kind = JobEntry::Kind::launcher, .process = status->launcher, .run = run}, o);
}

}  // namespace

void add_jobs_command(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("jobs", "Your jobs on this host");
  command->group(kJobGroup);
  command->add_flag("--json", *json, "One JSON array");
  command->callback([&action, json] { action = [json] { return show_jobs(*json); }; });
}

void add_stop_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<StopOptions>();
  CLI::App* command = app.add_subcommand("stop", "Stop a job: it finishes its step and saves it");
  command->group(kJobGroup);
  command->add_option("job", options->which, "Its run folder, its name or its pid (lockstep jobs)")
      ->type_name("RUNDIR|NAME|PID")
      ->required();
  command->add_flag("--now", options->now, "End it at once; what is not in a checkpoint is lost");
  command->add_option("--timeout", options->timeout, "How long to wait until it has stopped")
      ->type_name("SECONDS")
      ->check(seconds())
      ->default_str("60");
  command->footer(R"(Examples:
  lockstep stop runs/mnist-lenet-1
  lockstep stop mnist-lenet-1 --now

A job of another host is asked through its run folder, where both hosts see that.)");
  command->callback([&action, options] { action = [options] { return stop_job(*options); }; });
}

}  // namespace lockstep::cli
