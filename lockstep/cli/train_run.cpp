// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/paths.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/begin_of_run.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_cache.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/kvstore/long_work.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/same_bits.h"

namespace lockstep::cli {

using observe::RunFolder;

namespace {

// Each of a stage's threads has shards under way of its own: more than one is for who asks for it,
// and plans count with one.
int thread_count(const TrainOptions& options) {
  if (options.mesh.stages() > 1 && (options.is_planned || options.threads == 0)) return 1;
  return options.threads > 0 ? options.threads : options.fair_threads;
}

}  // namespace

int used_threads(const Run& run) {
  std::int64_t most = 1;
  for (const ShardRange& range : kvstore::deal_of(run.mode->get(), run.config.shards))
    most = std::max(most, range.hi - range.lo);
  return static_cast<int>(std::min<std::int64_t>(run.threads, most));
}

bool is_first(const TrainOptions& options) { return options.rank == 0; }

namespace {

observe::ProgressTarget progress_target(const TrainOptions& options) {
  const bool silent = options.quiet || !is_first(options);
  return silent ? observe::nowhere() : observe::standard_error();
}

}  // namespace

void say(const TrainOptions& options, const std::string& line) {
  if (!options.quiet && is_first(options)) print_error("{}\n", line);
}

namespace {

// A folder that is in use is refused before any data is fetched; it is made afterwards, so that
// missing data leaves nothing behind.
void check_out(const std::string& out) {
  if (!out.empty() && std::filesystem::exists(out)) {
    if (!std::filesystem::is_directory(out))
      throw InvalidArgument("run: '{}' is there, and is no folder", out);
    if (!std::filesystem::is_empty(out)) RunFolder::create(out);
  }
}

RunFolder new_run(const TrainOptions& options) {
  return options.out.empty() ? RunFolder::create_next("runs", options.recipe)
                             : RunFolder::create(options.out);
}

recipes::RecipeData open_data(const Run& run, recipes::TextCodecPtr codec) {
  observe::Progress progress(progress_target(run.options));
  recipes::RunConfig config = run.config;
  apply_limits(config, run.options.limits);
  return recipes::open_run_data(config, {data_cache(), std::move(codec), run.options.skip_bad},
                                progress);
}

void check_size(const Run& run) {
  const std::int64_t samples = run.data.train->size(), shards = run.config.shards;
  if (samples >= run.config.global_batch) return;
  throw InvalidArgument(
      "{}: has {} samples for training, fewer than a global batch of {}; choose {}",
      run.config.data.empty() ? run.recipe.dataset : run.config.data, samples,
      run.config.global_batch,
      samples < shards ? "a smaller --global-batch and fewer --shards"
                       : fmt::format("--global-batch {} or less", samples - samples % shards));
}

std::int64_t total_steps(const Run& run) {
  if (run.config.steps > 0) return run.config.steps;
  const std::int64_t of_epoch = run.data.train->size() / run.config.global_batch;
  if (run.config.epochs > std::numeric_limits<std::int64_t>::max() / of_epoch)
    throw WrongUsage(fmt::format("--epochs {}: too many to count their steps", run.config.epochs));
  return run.config.epochs * of_epoch;
}

}  // namespace

optim::Schedule schedule_of(const Run& run) {
  return recipes::make_schedule(run.config.learning, total_steps(run));
}

namespace {

// Fetching a data set takes a host its time, and others wait for it.
void open_data_together(Run& run, const Workers& workers, recipes::TextCodecPtr codec) {
  kvstore::work_together(*workers.group, run.options.patience(), "open data", [&] {
    run.options.stop_point.pass("data");
    run.data = open_data(run, std::move(codec));
  });
}

void check_data(Run& run, const Workers& workers) {
  run.options.stop_point.pass("compare");
  run.data_sha256 = compare_data(workers, run.data, run.config);
}

recipes::TextCodecPtr codec_from(const std::string& vocabulary, const recipes::Recipe& recipe) {
  if (vocabulary.empty()) return {};
  return std::make_shared<recipes::TextCodec>(recipe,
                                              data::Vocabulary::parse(vocabulary, "worker 0"));
}

// Throws when the workers' links cannot do what is asked for.
void make_mode(Run& run, Workers& workers) {
  const Membership dealt = run.options.deal.of(workers.group->membership());
  run.mode.emplace(workers.communicator(), dealt, run.config, run.options.patience(),
                   workers.servers(run.options, run.config),
                   kvstore::parse_shard_state(run.options.shard_state),
                   kvstore::ReplicaShape{static_cast<int>(run.options.mesh.stages()),
                                         static_cast<int>(run.options.mesh.tensor())});
}

// Of several workers the first makes the folder, when all have their data.
void make_run(Run& run, RunFolder folder) {
  run.folder.emplace(std::move(folder));
  recipes::write_classes(*run.folder, run.data.test->class_names());
  if (run.data.codec) recipes::write_codec(*run.folder, *run.data.codec);
  if (run.data.ratings) recipes::write_ratings(*run.folder, *run.data.ratings);
  run.folder->write_config(to_json(run.config));  // last: with it the folder is a run
}

constexpr const char* kRunEntry = "train/run";  // in the job's registry

// For workers that come while the run is under way.
void tell_latecomers(const Run& run, const Workers& workers) {
  if (!workers.survive() || !is_first(run.options)) return;
  const BeginOfRun begin{run.config, run.data.test->class_names(),
                         run.data.codec ? run.data.codec->vocabulary().format() : ""};
  workers.job->put(kRunEntry, nlohmann::json{{"begin", begin.to_text()},
                                             {"path", run.path},
                                             {"data", run.data_sha256},
                                             {"threads", run.options.fair_threads},
                                             {"workers", run.options.worker_count()},
                                             {"checkpoint_every", run.options.checkpoint_every},
                                             {"keep", run.options.keep},
                                             {"deal", run.options.deal.str()},
                                             {"launcher", to_string(launcher_mark())}}
                                  .dump());
}

Run start_run(const TrainOptions& options, const recipes::RunConfig& config, Workers& workers) {
  Run run{options, config, recipes::find_recipe(config.recipe), thread_count(options), {}, {}, {}};
  run.config.isa =
      to_string(train::agree_on_instruction_set(*workers.group, workers.servers_set(options)));
  options.stop_point.pass("folder");
  kvstore::first_does(*workers.group, [&] { return check_out(options.out), std::string(); });
  open_data_together(run, workers, {});
  if (run.recipe.from_data) run.config.image = recipes::text_of_shape(run.data.image);
  run.recipe = recipes::with_ratings(recipes::run_recipe(run.config, run.data.test->class_names()),
                                     run.data.ratings);
  check_size(run);
  schedule_of(run);  // what is wrong with it is told before there is a folder
  check_data(run, workers);
  make_mode(run, workers);
  options.stop_point.pass("run");
  run.path = kvstore::first_does(*workers.group, [&] {
    make_run(run, new_run(run.options));
    return absolute_path(run.folder->path());
  });
  tell_latecomers(run, workers);
  return run;
}

// What decides no bit may differ from the first time. A run that met a bad image may go on without
// it: samples keep their numbers, and another one takes its place.
BeginOfRun open_run(const TrainOptions& options, std::optional<RunFolder>& folder) {
  folder.emplace(RunFolder::resume(options.out));
  const recipes::RunConfig before =
      recipes::config_from_json(folder->read_config(), folder->config_path());
  std::vector<std::string> ignored{
      "version",         "kvstore",  "servers",      "replicas", "staleness",
      "stale_gradients", "skip_bad", "max_inflated", "epochs",   "steps"};
  if (!before.skip_bad) ignored.emplace_back("max_pixels");  // else it decides what is left out
  recipes::RunConfig now = apply_options(before, options);
  observe::check_same_config(*folder, to_json(now), ignored, recipes::older_defaults());
  const std::vector<std::string> classes = recipes::read_classes(*folder);
  const recipes::TextCodecPtr codec =
      recipes::read_codec(*folder, recipes::run_recipe(before, classes));
  recipes::RunConfig longer = before;  // or shorter
  longer.epochs = now.epochs;
  longer.steps = now.steps;
  longer.kvstore = now.kvstore;
  longer.servers = now.servers;
  longer.replicas = now.replicas;
  longer.staleness = now.staleness;
  longer.stale_gradients = now.stale_gradients;
  return {longer, classes, codec ? codec->vocabulary().format() : ""};
}

}  // namespace

void check_resume(const TrainOptions& options) {
  if (options.out.empty()) throw WrongUsage("--resume: needs --out RUNDIR, the run to go on with");
}

recipes::RunConfig checked_config(const TrainOptions& options, const recipes::RunConfig& asked) {
  if (!options.resume) return asked;
  check_resume(options);
  std::optional<RunFolder> folder;
  return open_run(options, folder).config;
}

namespace {

// With the instructions that the run began with where all workers have them: it keeps its bits.
void agree_again(const TrainOptions& options, const recipes::RunConfig& config,
                 const Workers& workers) {
  std::optional<InstructionSet> most = workers.servers_set(options);
  if (!config.isa.empty()) {
    const InstructionSet recorded = parse_instruction_set(config.isa);
    most = std::min(recorded, most.value_or(recorded));
  }
  train::agree_on_instruction_set(*workers.group, most);
}

// A run that goes on may end elsewhere than it was to end: --epochs 6 makes a finished run longer.
// Its schedule is then the longer run's from here on.
void change_length(const Run& run) {
  const recipes::RunConfig before =
      recipes::config_from_json(run.folder->read_config(), run.folder->config_path());
  if (before.epochs == run.config.epochs && before.steps == run.config.steps) return;
  const auto files = train::list_checkpoints(run.folder->checkpoints_path());
  const std::int64_t done = files.empty() ? 0 : files.back().step;
  const std::int64_t total = total_steps(run);
  if (done > total)
    throw InvalidArgument("{}: has done {} steps, more than the {} that are asked for",
                          run.folder->path(), done, total);
  const recipes::Learning& learning = run.config.learning;
  if ((learning.schedule != "constant" || learning.warm_up > 0.0) && done > 0)
    say(run.options,
        fmt::format("from step {} on, the learning rate is that of a run of {} steps; a run that "
                    "has them from its start has other bits",
                    done + 1, total));
  run.folder->write_config(to_json(run.config));
}

// The first worker alone sees the folder; the others' data is compared with its own.
void check_ratings(const Run& run) {
  const recipes::RatingTablePtr of_run = recipes::read_ratings(*run.folder, run.recipe);
  if (of_run) recipes::check_ratings(run.config, *run.data.ratings, *of_run);
}

Run resume_run(const TrainOptions& options, Workers& workers) {
  check_resume(options);
  options.stop_point.pass("folder");
  std::optional<RunFolder> folder;
  const BeginOfRun begin = BeginOfRun::from_text(
      kvstore::first_does(*workers.group, [&] { return open_run(options, folder).to_text(); }));
  agree_again(options, begin.config, workers);
  const recipes::Recipe recipe = recipes::run_recipe(begin.config, begin.classes);
  Run run{options, begin.config, recipe, thread_count(options), {}, std::move(folder), {}};
  open_data_together(run, workers, codec_from(begin.vocabulary, recipe));
  recipes::check_classes(begin.config, *run.data.test, begin.classes);
  run.recipe = recipes::with_ratings(recipe, run.data.ratings);
  check_size(run);
  check_data(run, workers);
  kvstore::first_does(*workers.group, [&] { return check_ratings(run), std::string(); });
  make_mode(run, workers);
  kvstore::first_does(*workers.group, [&] { return change_length(run), std::string(); });
  run.path = absolute_path(options.out);
  tell_latecomers(run, workers);
  return run;
}

// Comes to a run that is under way: by itself until the others let it in.
Run join_run(TrainOptions& options, Workers& workers) {
  const auto told = nlohmann::json::parse(workers.job->get(kRunEntry, options.patience()).bytes);
  const BeginOfRun begin = BeginOfRun::from_text(told.at("begin"));
  options.fair_threads = told.at("threads");
  options.workers = told.at("workers").get<std::int64_t>();
  options.checkpoint_every = told.at("checkpoint_every");
  options.keep = told.at("keep");
  options.deal = Deal::parse(told.at("deal"));
  if (workers.control) workers.control->launcher = parse_mark(told.at("launcher"));
  agree_again(options, begin.config, workers);
  const recipes::Recipe recipe = recipes::run_recipe(begin.config, begin.classes);
  Run run{options, begin.config, recipe, thread_count(options), {}, {}, {}};
  run.path = told.at("path");
  run.data = open_data(run, codec_from(begin.vocabulary, recipe));
  if (recipes::data_sha256(run.data) != told.at("data"))
    throw InvalidArgument("{}: this worker has other files there than worker 0",
                          run.config.data.empty() ? recipe.dataset : run.config.data);
  recipes::check_classes(begin.config, *run.data.test, begin.classes);
  run.recipe = recipes::with_ratings(recipe, run.data.ratings);
  run.mode.emplace(recipes::RunMode::of_latecomer(run.config, options.patience()));
  return run;
}

}  // namespace

// By whoever reads the folder, and by nobody else.
void let_control(const Run& run) {
  if (run.folder && run.control) write_control(run.folder->path(), *run.control);
}

const observe::RunFolder& take_folder(Run& run) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  if (run.folder) return *run.folder;
  for (int tries = 100; !run.folder; --tries) {
    try {
      run.folder.emplace(RunFolder::resume(run.path));
    } catch (const NotFound&) {
      make_run(run, RunFolder::create(run.path));
    } catch (const InvalidArgument&) {
      if (tries == 0) throw;
      std::this_thread::sleep_for(kPause);
    }
  }
  let_control(run);
  return *run.folder;
}

void survive(Run& run, const Workers& workers) {
  if (!workers.survive()) return;
  run.job = workers.job.get();
  run.control = workers.control;
  let_control(run);
  run.survival = train::survive(
      *workers.job, [job = run.job, config = run.config, options = run.options](
                        comm::Communicator* communicator, const Membership& membership) {
        const auto servers = servers_now(*job, options, config);
        return recipes::mode_of_generation(communicator, options.deal.of(membership), config,
                                           options.patience(), servers ? &*servers : nullptr);
      });
}

namespace {

// Of several workers the first alone may see the folder.
void decide_to_resume(TrainOptions& options, kvstore::Group& group) {
  if (!options.resume_auto) return;
  options.resume =
      kvstore::first_does(group, [&] { return has_run(options.out) ? "yes" : "no"; }) == "yes";
}

}  // namespace

Run open_or_join(TrainOptions& options, const recipes::RunConfig& config, Workers& workers) {
  if (workers.is_late()) return join_run(options, workers);
  options.fair_threads = workers.fair_threads();
  decide_to_resume(options, *workers.group);
  return options.resume ? resume_run(options, workers) : start_run(options, config, workers);
}

}  // namespace lockstep::cli
