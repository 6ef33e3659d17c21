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
#include "lockstep/base/process.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/launch_report.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/comm/agreement.h"

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
  if (place.launcher == Launcher::mpi) return fmt::format("mpirun -n {}", place.members());
  if (place.launcher == Launcher::slurm) return fmt::format("srun -n {}", place.members());
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

}  // namespace

std::optional<cluster::Place> find_train_place() {
  const std::optional<cluster::Place> place = cluster::find_place();
  if (place && place->members() == 1 && place->launcher != cluster::Place::Launcher::lockstep)
    return {};
  return place;
}

void check_servers(int servers) {
  if (servers > 0)
    throw WrongUsage(
        fmt::format("train: --servers {} (LOCKSTEP_SERVERS): no mode of training has servers; "
                    "leave them out",
                    servers));
}

void take_place(TrainOptions& options, const std::optional<cluster::Place>& place) {
  if (!place) return;
  check_servers(place->servers);
  if (options.workers && *options.workers != place->workers)
    throw WrongUsage(fmt::format("--workers {}: this is worker {} of a job of {}; leave it out",
                                 *options.workers, place->rank, place->workers));
  options.workers = place->workers;
  options.rank = place->rank;
  options.stop_point = StopPoint::from_environment(place->rank);
  options.launched_by = launched_by(*place);
  options.launcher_connects = options.connect.transport_name().empty();
  if (options.launcher_connects) options.connect.transport = place->transport;
}

int launch_workers(const TrainOptions& options) {
  cluster::LaunchOptions launch;
  launch.command = own_command();
  launch.workers = static_cast<int>(options.worker_count());
  launch.timeout = options.patience();
  launch.grace = std::chrono::milliseconds(static_cast<std::int64_t>(options.grace * 1000));
  const std::set<std::string> before = unnamed_runs(options.recipe);
  const cluster::LaunchResult result = cluster::launch(launch);
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

comm::Communicator* Workers::communicator() const {
  return group->workers() > 1 ? &job->communicator() : nullptr;
}

Workers connect_workers(const TrainOptions& options, const std::optional<cluster::Place>& place,
                        const recipes::RunConfig& config) {
  Workers workers;
  workers.group = kvstore::group_of_one();
  if (!place) return workers;
  cluster::JobOptions job;
  job.transport = options.connect.transport_name();
  job.interface = options.connect.interface;
  job.configuration = to_json(config);
  job.timeout = options.patience();
  job.on_phase = [&options](std::string_view phase) { options.stop_point.pass(phase); };
  workers.job = std::make_unique<cluster::Job>(*place, job);
  if (place->workers > 1)
    workers.group = kvstore::group_of(workers.job->communicator(), workers.job->membership(),
                                      options.patience());
  return workers;
}

void compare_data(const Workers& workers, const recipes::RecipeData& data,
                  const recipes::RunConfig& config) {
  if (workers.communicator() == nullptr) return;  // reading all of it takes its time
  comm::compare_texts(
      workers.group->share(recipes::data_sha256(data)),
      [&](std::size_t rank, const std::string&, const std::string&) {
        throw InvalidArgument(
            "{}: worker {} has other files there than worker 0; they must be the same on all hosts",
            config.data.empty() ? recipes::find_recipe(config.recipe).dataset : config.data, rank);
      });
}

}  // namespace lockstep::cli
