// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_workers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/process.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/cli/launch_again.h"
#include "lockstep/cli/launch_report.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/cluster/membership/scheduler.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/recipes/run_mode.h"
#include "lockstep/train/parameter_server.h"
#include "lockstep/train/status_reporter.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> own_command() {
  std::vector<std::string> words = own_words();
  words[0] = program_path();
  return words;
}

// What the user types before the program to have such a job again.
std::string launched_by(const cluster::Place& place) {
  using Launcher = cluster::Place::Launcher;
  const std::string servers = std::to_string(place.servers);
  if (place.launcher == Launcher::mpi)
    return fmt::format("mpirun{} -n {}", place.servers > 0 ? " -x LOCKSTEP_SERVERS=" + servers : "",
                       place.members());
  if (place.launcher == Launcher::slurm)
    return fmt::format("{}srun -n {}", place.servers > 0 ? "LOCKSTEP_SERVERS=" + servers + " " : "",
                       place.members());
  return place.launched_by;
}

// Folders of runs that were given no name.
std::set<std::string> unnamed_runs(const std::string& recipe) {
  std::set<std::string> runs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("runs", error))
    if (entry.path().filename().string().starts_with(recipe + "-"))
      runs.insert(entry.path().string());
  return runs;
}

// The folder that the first worker made: where none was named, the only new one; empty when there
// are several.
std::string find_run(const TrainOptions& options, const std::set<std::string>& before) {
  if (!options.out.empty()) return options.out;
  std::set<std::string> runs = unnamed_runs(options.recipe);
  for (const std::string& run : before) runs.erase(run);
  return runs.size() == 1 ? *runs.begin() : "";
}

std::string numbers_text(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, " "));
}

std::vector<int> numbers_in(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<int>(words), {}};
}

bool has_checkpoint(const std::string& run) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error))
    if (entry.path().extension() == ".ckpt") return true;
  return false;
}

// What the run's folder says of its store is said to members that do not see it.
void add_store_words(std::vector<std::string>& command, const TrainOptions& options,
                     const recipes::RunConfig& config) {
  if (config.servers == 0) return;
  const auto add = [&](bool is_given, const char* name, const std::string& value) {
    if (!is_given) command.insert(command.end(), {name, value});
  };
  add(options.kvstore.has_value(), "--kvstore", config.kvstore);
  add(options.replicas.has_value(), "--replicas", std::to_string(config.replicas));
  if (config.kvstore == "ps_ssp")
    add(options.staleness.has_value(), "--staleness", std::to_string(config.staleness));
  if (!config.stale_gradients.empty())
    add(options.stale_gradients.has_value(), "--stale-gradients", config.stale_gradients);
}

std::chrono::milliseconds heartbeat_of(const TrainOptions& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options.heartbeat * 1000));
}

int most_workers(const TrainOptions& options, const recipes::RunConfig& config) {
  return static_cast<int>(
      std::min<std::int64_t>(options.max_workers.value_or(config.shards), config.shards));
}

train::ServersOptions servers_options(const TrainOptions& options,
                                      const recipes::RunConfig& config) {
  return {.replicas = static_cast<int>(config.replicas), .timeout = options.patience()};
}

AfterLoss after_loss_of(const TrainOptions& options) {
  if (options.begins_again) return AfterLoss::begins_again;
  const bool survives = is_survivor(options) && options.worker_count() > 1;
  return survives ? AfterLoss::goes_on : AfterLoss::ends;
}

}  // namespace

bool is_survivor(const TrainOptions& options) {
  const bool shares_state = options.shard_state > 0 || options.mesh.parts() > 1;
  return !options.fail_fast && !shares_state;
}

void check_store(const TrainOptions& options, const std::optional<recipes::RunConfig>& config) {
  if (options.worker_count() < 2 || !is_survivor(options) ||
      (config && !recipes::is_in_step(*config)))
    throw WrongUsage(
        "--store: this job ends with the first worker that is lost; expected two workers or more "
        "that are in step, each with the whole state, and no --fail-fast");
}

void take_limits(cluster::LaunchOptions& launch, const TrainOptions& options,
                 const recipes::RunConfig& config) {
  launch.min_workers = static_cast<int>(options.min_workers.value_or(1));
  launch.max_workers = most_workers(options, config);
  launch.max_restarts = static_cast<int>(options.max_restarts);
  if (is_survivor(options)) launch.heartbeat = heartbeat_of(options);
}

std::optional<cluster::Place> find_train_place() {
  std::optional<cluster::Place> place = cluster::find_place();
  if (place) cluster::look_for_running_job(*place);
  if (place && place->members() == 1 && place->launcher != cluster::Place::Launcher::lockstep)
    return {};
  return place;
}

void take_rank(TrainOptions& options, int rank) {
  options.rank = rank;
  options.stop_point = StopPoint::from_environment(rank);
  options.fail_point = FailPoint::from_environment(rank);
}

void take_place(TrainOptions& options, const std::optional<cluster::Place>& place) {
  if (!place) return;
  if (options.workers && *options.workers != place->workers)
    throw WrongUsage(fmt::format("--workers {}: this is {} {} of a job of {}; leave it out",
                                 *options.workers, to_string(place->role),
                                 place->rank < 0 ? "one" : std::to_string(place->rank),
                                 place->workers));
  options.workers = place->workers;
  options.job_servers = place->servers;
  options.launcher = place->launcher;
  take_rank(options, place->rank);
  options.launched_by = launched_by(*place);
  options.launcher_connects = options.connect.transport_name().empty();
  if (options.launcher_connects) options.connect.transport = place->transport;
}

int launch_workers(const TrainOptions& options, const recipes::RunConfig& config) {
  cluster::LaunchOptions launch;
  launch.command = own_command();
  add_store_words(launch.command, options, config);
  std::ranges::copy(options.planned_words, std::back_inserter(launch.command));
  launch.servers = static_cast<int>(config.servers);
  launch.workers = static_cast<int>(options.worker_count());
  launch.timeout = options.patience();
  launch.grace = std::chrono::milliseconds(static_cast<std::int64_t>(options.grace * 1000));
  launch.ports = options.connect.ports;
  options.care.apply(launch);
  take_limits(launch, options, config);
  launch.store = options.store;
  const std::set<std::string> before = unnamed_runs(options.recipe);
  const observe::ListedJob listed = list_launcher(launch);
  const auto go_on = [&, words = launch.command]() -> std::vector<std::string> {
    const std::string run = find_run(options, before);
    if (run.empty() || !has_run(run)) return {};
    return resuming(words, run);
  };
  const cluster::LaunchResult result = launch_until_done(launch, go_on, after_loss_of(options));
  const std::string run = find_run(options, before);
  return report_launch(result, has_checkpoint(run) ? resume_command(options, run) : "");
}

int Workers::fair_threads() const {
  if (communicator() == nullptr) return usable_threads();
  const std::vector<std::string> all = group->share(numbers_text(usable_cores()));
  for (const std::vector<int>& ranks : job->communicator().topology()) {
    const auto own = std::find(ranks.begin(), ranks.end(), job->rank());
    if (own == ranks.end()) continue;
    std::vector<std::vector<int>> cores;
    for (const int rank : ranks) cores.push_back(numbers_in(all[static_cast<std::size_t>(rank)]));
    return lockstep::fair_threads(cores, static_cast<std::size_t>(own - ranks.begin()),
                                  cgroup_limits().cores);
  }
  return usable_threads();
}

std::optional<InstructionSet> Workers::servers_set(const TrainOptions& options) const {
  if (!job || job->membership().count(Role::server) == 0) return {};
  return train::servers_instruction_set(*job, options.patience());
}

const kvstore::ServedJob* Workers::servers(const TrainOptions& options,
                                           const recipes::RunConfig& config) {
  if (!job) return nullptr;
  served = servers_now(*job, options, config);
  return served ? &*served : nullptr;
}

std::optional<kvstore::ServedJob> servers_now(cluster::Job& job, const TrainOptions& options,
                                              const recipes::RunConfig& config) {
  if (job.membership().count(Role::server) == 0) return {};
  return train::servers_of(job, servers_options(options, config));
}

comm::Communicator* Workers::communicator() const {
  return group->workers() > 1 ? &job->communicator() : nullptr;
}

namespace {

// Where no launcher of ours looks after the job.
cluster::Care care_of(const TrainOptions& options, const recipes::RunConfig& config) {
  return {
      .heartbeat = std::chrono::milliseconds(static_cast<std::int64_t>(options.heartbeat * 1000)),
      .min_workers = static_cast<int>(options.min_workers.value_or(1)),
      .max_workers = most_workers(options, config),
      .on_event = [](const cluster::MembershipEvent& event) {
        print_error("lockstep: {}\n", to_string(event));
      }};
}

std::unique_ptr<cluster::Job> join(const TrainOptions& options, const cluster::Place& place,
                                   const recipes::RunConfig& config) {
  cluster::JobOptions job;
  job.transport = options.connect.transport_name();
  job.interface = options.connect.interface;
  job.ports = options.connect.ports;
  job.configuration = options.is_guest ? "" : to_json(config);  // what the others have
  job.timeout = options.patience();
  job.on_phase = [&options](std::string_view phase) { options.stop_point.pass(phase); };
  job.tolerates_lost_servers = config.replicas > 1;
  job.survives = place.workers > 1 && is_survivor(options);
  job.care = care_of(options, config);
  return std::make_unique<cluster::Job>(place, job);
}

}  // namespace

// A signal that stops the job stops the workers, who still need the servers to save what these
// have.
int be_server(const TrainOptions& options, const cluster::Place& place,
              const recipes::RunConfig& config) {
  StopSignals signals(true);
  const std::unique_ptr<cluster::Job> job = join(options, place, config);
  signals.hold();
  train::StatusReporter status(train::StatusOptions{.job = job.get()});
  train::run_parameter_server(*job, servers_options(options, config));
  status.end(observe::JobStatus::State::finished);
  return 0;
}

int be_scheduler(const TrainOptions& options, const cluster::Place& place) {
  cluster::SchedulerOptions own;
  own.timeout = options.patience();
  own.log = [](const std::string& line) { print_error("lockstep: {}\n", line); };
  cluster::run_scheduler(place, own);
  return 0;
}

Workers connect_workers(const TrainOptions& options, const std::optional<cluster::Place>& place,
                        const recipes::RunConfig& config) {
  Workers workers;
  workers.group = kvstore::group_of_one();
  if (!place) return workers;
  workers.job = join(options, *place, config);
  if (workers.survive())
    workers.control = JobControl{workers.job->coordinator(), workers.job->secret(), launcher_mark(),
                                 place->store, place->job};
  if (place->workers > 1 && !place->is_late)
    workers.group = kvstore::group_of(workers.job->communicator(), workers.job->membership(),
                                      options.patience());
  return workers;
}

std::string compare_data(const Workers& workers, const recipes::RecipeData& data,
                         const recipes::RunConfig& config) {
  if (workers.communicator() == nullptr) return {};  // reading all of it takes its time
  const std::string own = recipes::data_sha256(data);
  comm::compare_texts(
      workers.group->share(own), [&](std::size_t rank, const std::string&, const std::string&) {
        throw InvalidArgument(
            "{}: worker {} has other files there than worker 0; they must be the same on all hosts",
            config.data.empty() ? recipes::find_recipe(config.recipe).dataset : config.data, rank);
      });
  return own;
}

}  // namespace lockstep::cli
