// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/elastic_commands.h"
#include "lockstep/cli/job_control.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/cli/options.h"
#include "lockstep/cluster/membership/stored_job.h"
#include "lockstep/observe/job_status.h"
#include "lockstep/observe/text.h"
#include "lockstep/train/status_reporter.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(200);
constexpr auto kStoreTime = std::chrono::seconds(10);
constexpr auto kProgress = std::chrono::seconds(5);
// The first worker writes the result before it says that it is told.
constexpr const char* kResult = "/result.json";

struct AttachOptions {
  std::string which;
  double timeout = 60;  // seconds
  bool json = false, quiet = false;
};

std::atomic<int> asked_by = 0;  // a signal

void note_signal(int number) { asked_by = number; }

// A job's run folder, by itself or by its name in `lockstep jobs` and in runs/.
std::string folder_of(const std::string& which) {
  std::error_code error;
  for (const std::string& folder : {which, "runs/" + which})
    if (fs::is_directory(folder, error)) return folder;
  for (const observe::JobEntry& job : job_list().read())
    if (job.name() == which && !job.run.empty()) return job.run;
  throw NotFound("attach: '{}' is no run folder, nor the name of a job", which);
}

int show_result(const std::string& folder, const AttachOptions& o) {
  const std::string text = read_file(folder + kResult);
  try {
    const auto result = nlohmann::ordered_json::parse(text);
    if (o.json)
      fmt::print("{}\n", result.dump());
    else
      fmt::print("{}: done; params_sha256 {}\n", folder,
                 result.value("params_sha256", std::string("-")));
  } catch (const nlohmann::json::exception&) {
    throw Corrupt("attach: {}{}: it is not what a run writes there", folder, kResult);
  }
  return 0;
}

std::optional<observe::JobStatus> status_of(const std::string& folder) {
  try {
    return observe::read_status(folder);
  } catch (const Error&) {
    return {};
  }
}

// Follows a job until it is over, and passes a signal on to it.
class Attachment {
 public:
  Attachment(const AttachOptions& options, std::string folder, const JobControl& control)
      : options_(options),
        folder_(std::move(folder)),
        job_(cluster::open_store(control.store), control.job) {}

  int run() {
    for (;;) {
      const auto record = look();
      if (record && record->is_over) return end(*record);
      if (const int signal = asked_by.exchange(0)) pass_on(signal);
      show_progress();
      std::this_thread::sleep_for(kLook);
    }
  }

 private:
  // Nothing where the store does not answer: it may, later.
  std::optional<cluster::JobRecord> look() {
    std::string why = "it has no coordinator";
    try {
      const auto until = steady_clock::now() + kStoreTime;
      const auto record = job_.record(until);
      if (record) tell_news(*record);
      if (job_.leader(until) || (record && record->is_over)) heard_ = steady_clock::now();
      if (heard_recently()) return record;
    } catch (const IoError& error) {
      if (heard_recently()) return {};
      why = error.what();
    }
    throw IoError("attach: {}: the job was not heard of for {} s: {}", folder_, options_.timeout,
                  why);
  }

  bool heard_recently() const {
    return steady_clock::now() < heard_ + std::chrono::duration<double>(options_.timeout);
  }

  void tell_news(const cluster::JobRecord& record) {
    if (last_event_ < 0 && !options_.quiet)
      print_error("lockstep: attached to {}: {} workers in generation {}\n", folder_,
                  record.membership.count(Role::worker), record.membership.generation);
    for (const cluster::MembershipEvent& event : record.events) {
      if (event.number <= last_event_) continue;
      if (last_event_ >= 0 && !options_.quiet) print_error("lockstep: {}\n", to_string(event));
    }
    last_event_ = record.events.empty() ? 0 : record.events.back().number;
  }

  void show_progress() {
    if (options_.quiet || steady_clock::now() < next_progress_) return;
    next_progress_ = steady_clock::now() + kProgress;
    if (const auto status = status_of(folder_))
      print_error("lockstep: step {} of {}\n", observe::format_count(status->step),
                  observe::format_count(status->total_steps));
  }

  // The first one stops the job after its step. Whoever presses Ctrl-C again wants to go, and the
  // job is asked already.
  void pass_on(int signal) {
    if (stopped_by_ != 0)
      throw IoError("attach: {}: it was asked to stop, and is left alone now", folder_);
    stopped_by_ = signal;
    print_error("lockstep: {}: it is asked to stop\n", folder_);
    train::request_stop(folder_);
  }

  int end(const cluster::JobRecord& record) const {
    if (!record.is_run_done()) throw IoError("attach: {}: {}", folder_, record.failure);
    const auto status = status_of(folder_);
    if (status && status->state == observe::JobStatus::State::stopped) {
      fmt::print("stopped {} at step {}; {}\n", folder_, observe::format_count(status->step),
                 status->message);
      return 128 + (stopped_by_ == 0 ? SIGTERM : stopped_by_);
    }
    return show_result(folder_, options_);
  }

  const AttachOptions& options_;
  std::string folder_;
  cluster::StoredJob job_;
  steady_clock::time_point heard_ = steady_clock::now(), next_progress_ = steady_clock::now();
  std::int64_t last_event_ = -1;
  int stopped_by_ = 0;
};

int attach(const AttachOptions& o) {
  const std::string folder = folder_of(o.which);
  std::error_code error;
  if (!fs::exists(folder + "/control.json", error) && fs::exists(folder + kResult, error))
    return show_result(folder, o);
  const JobControl control = read_control(folder, "attach");
  if (control.store.empty())
    throw InvalidArgument(
        "attach: {}: its launcher coordinates it and ends with it; expected a job with --store",
        folder);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, note_signal);
  return Attachment(o, folder, control).run();
}

}  // namespace

void add_attach_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<AttachOptions>();
  CLI::App* command =
      app.add_subcommand("attach", "Find a job again whose launcher is gone (--store)");
  command->group(kJobGroup);
  command->add_option("job", options->which, "Its run folder, or its name")
      ->type_name("RUNDIR|NAME")
      ->required();
  command->add_flag("--json", options->json, "The result as one JSON object");
  command->add_flag("--quiet", options->quiet, "No progress");
  command
      ->add_option("--timeout", options->timeout,
                   "How long the job may be without a coordinator, or its store silent")
      ->type_name("SECONDS")
      ->check(seconds())
      ->default_str("60");
  command->footer(R"(Examples:
  lockstep attach run
  lockstep attach mnist-lenet-1 --json

Tells what happens to the workers and how far they are, waits for the end, and prints the result.
Ctrl-C stops the job after its step; nobody is started in the place of lost workers.)");
  command->callback([&action, options] { action = [options] { return attach(*options); }; });
}

}  // namespace lockstep::cli
