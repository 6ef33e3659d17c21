// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/begin_of_run.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_cache.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/cli/train_mode.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/cli/train_workers.h"
#include "lockstep/kvstore/long_work.h"
#include "lockstep/observe/text.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/recipes/run_mode.h"
#include "lockstep/recipes/run_report.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/product_speed.h"
#include "lockstep/train/same_bits.h"
#include "lockstep/train/status_reporter.h"
#include "lockstep/train/survival.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {
namespace {

using observe::RunFolder;

// Everything of a run that the command line and the run's folder decide.
struct Run {
  const TrainOptions& options;
  recipes::RunConfig config;
  recipes::Recipe recipe;
  int threads;  // as asked for
  recipes::RecipeData data;
  std::optional<RunFolder> folder;  // the first worker's
  std::optional<recipes::RunMode> mode;
  std::string path = {};                           // of the folder, on every worker
  cluster::Job* job = nullptr;                     // that survives losses
  std::string data_sha256 = {};                    // of several workers
  std::unique_ptr<train::Survival> survival = {};  // of a job that goes on when workers are lost
};

int thread_count(const TrainOptions& options) {
  return options.threads > 0 ? options.threads : options.fair_threads;
}

// More threads than a worker has shards have nothing to do.
int used_threads(const Run& run) {
  std::int64_t most = 1;
  for (const ShardRange& range : run.mode->get().group().membership().deal(run.config.shards))
    most = std::max(most, range.hi - range.lo);
  return static_cast<int>(std::min<std::int64_t>(run.threads, most));
}

// Of several workers, the first shows, writes and reports.
bool is_first(const TrainOptions& options) { return options.rank == 0; }

observe::ProgressTarget progress_target(const TrainOptions& options) {
  const bool silent = options.quiet || !is_first(options);
  return silent ? observe::nowhere() : observe::standard_error();
}

void say(const TrainOptions& options, const std::string& line) {
  if (!options.quiet && is_first(options)) print_error("{}\n", line);
}

// A folder that is in use is refused before any data is fetched; it is made afterwards, so that
// missing data leaves nothing behind.
void check_out(const std::string& out) {
  if (!out.empty() && std::filesystem::exists(out) && !std::filesystem::is_empty(out))
    RunFolder::create(out);
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

optim::Schedule schedule_of(const Run& run) {
  return recipes::make_schedule(run.config.learning, total_steps(run));
}

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
  run.mode.emplace(workers.communicator(), workers.group->membership(), run.config,
                   run.options.patience(), workers.servers(run.options, run.config));
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
                                             {"threads", run.options.fair_threads}}
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
    return std::filesystem::absolute(run.folder->path()).lexically_normal().string();
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

void check_resume(const TrainOptions& options) {
  if (options.out.empty()) throw WrongUsage("--resume: needs --out RUNDIR, the run to go on with");
}

// What is wrong is told once, before there are workers.
recipes::RunConfig checked_config(const TrainOptions& options, const recipes::RunConfig& asked) {
  if (!options.resume) return asked;
  check_resume(options);
  std::optional<RunFolder> folder;
  return open_run(options, folder).config;
}

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
  run.path = std::filesystem::absolute(options.out).lexically_normal().string();
  tell_latecomers(run, workers);
  return run;
}

// Comes to a run that is under way: by itself until the others let it in.
Run join_run(TrainOptions& options, Workers& workers) {
  const auto told = nlohmann::json::parse(workers.job->get(kRunEntry, options.patience()).bytes);
  const BeginOfRun begin = BeginOfRun::from_text(told.at("begin"));
  options.fair_threads = told.at("threads");
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
  run.mode.emplace(nullptr, alone(), run.config, options.patience());
  return run;
}

// A worker that becomes the first one has the folder from then on; where it does not see it, one of
// its own. The one before it may still be there for a moment.
const RunFolder& take_folder(Run& run) {
  constexpr auto kPause = std::chrono::milliseconds(50);
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
  return *run.folder;
}

void survive(Run& run, const Workers& workers) {
  if (!workers.survive()) return;
  run.job = workers.job.get();
  run.survival = train::survive(
      *workers.job, [config = run.config, wait = run.options.patience()](
                        comm::Communicator* communicator, const Membership& membership) {
        return recipes::mode_of_generation(communicator, membership, config, wait);
      });
}

train::TrainerOptions trainer_options(const Run& run) {
  train::TrainerOptions options{.global_batch = run.config.global_batch,
                                .shards = run.config.shards,
                                .threads = run.threads,
                                .seed = run.config.seed};
  options.fields = run.recipe.roles();
  options.compile.compute = dtype_from_name(run.config.dtype);
  options.mode = &run.mode->get();
  options.survival = run.survival.get();
  options.allow_different_bits = run.options.allow_different_bits;
  return options;
}

data::Transform transform_of(const std::function<data::Transform()>& make) {
  return make ? make() : data::Transform{};
}

// The report needs to know which samples were taken for what.
class KeepPredictions final : public train::Callback {
 public:
  bool wants_predictions() const override { return true; }
};

bool wants_predictions(const Run& run) {
  return run.options.report && run.recipe.task != recipes::Task::characters;
}

// The best checkpoint is the best in the recipe's own figure where it has one.
std::optional<train::Monitor> monitor_of(const recipes::Recipe& recipe) {
  if (recipe.metric.name.empty()) return std::nullopt;
  return train::Monitor{.metric = recipe.metric.name, .maximize = recipe.metric.maximize};
}

observe::ProgressTarget first_workers_target(const TrainOptions& options) {
  return options.quiet ? observe::nowhere() : observe::standard_error();
}

train::FitOptions fit_options(Run& run, const StopSignals& signals, bool& begun) {
  const TrainOptions& options = run.options;
  std::vector<train::CallbackPtr> callbacks{train::on_first_worker(
      [&options] { return train::show_progress(first_workers_target(options)); })};
  callbacks.push_back(train::on_step([&begun, &options](auto&, auto&) {
    options.stop_point.pass(begun ? "step" : "first step");
    begun = true;
  }));
  callbacks.push_back(
      train::on_first_worker([&run] { return train::record_metrics(take_folder(run)); }));
  if (run.survival)
    callbacks.push_back(
        train::on_first_worker([&run] { return train::record_membership(take_folder(run)); }));
  if (wants_predictions(run)) callbacks.push_back(std::make_shared<KeepPredictions>());
  return {.epochs = run.config.epochs,
          .steps = run.config.steps,
          .transform = transform_of(run.recipe.train_transform),
          .schedule = schedule_of(run),
          .callbacks = std::move(callbacks),
          .validation = run.data.test,
          .validation_transform = transform_of(run.recipe.test_transform),
          .metrics = run.recipe.metrics(),
          .evaluate_every = run.config.eval_every,
          .checkpoints = run.folder ? run.folder->checkpoints_path() : run.path + "/checkpoints",
          .checkpoint_every = options.checkpoint_every,
          .keep_last = options.keep,
          .monitor = monitor_of(run.recipe),
          .resume = options.resume,
          .configuration = to_json(run.config),
          .older_configuration = recipes::older_defaults(),
          .may_differ = {"epochs", "steps", "schedule", "kvstore", "servers", "replicas",
                         "staleness", "stale_gradients"},  // as the run folder's may
          .stop = &signals.asked(),
          .skip_bad = run.config.skip_bad || options.skip_bad};
}

// bfloat16 may be wanted for its bits, or for another processor: the run goes on.
void say_if_slower(const Run& run) {
  if (run.config.dtype != "bfloat16" || run.options.quiet || !is_first(run.options)) return;
  const nn::BlockPtr net = run.recipe.net();
  const train::StepGraph step = train::trace_step(
      *net, run.recipe.loss(), run.recipe.fields(run.config.global_batch / run.config.shards),
      run.recipe.roles());
  const std::string notice =
      bfloat16_notice(train::bfloat16_speedup(step.graph), instruction_set_in_use());
  if (!notice.empty()) say(run.options, notice);
}

// A run that fails before its first step leaves no folder.
train::FitResult fit_or_clean_up(Run& run, train::Trainer& trainer, const StopSignals& signals,
                                 train::StatusReporter& status) {
  bool begun = run.options.resume;
  try {
    train::FitOptions options = fit_options(run, signals, begun);
    options.callbacks.push_back(status.callback());
    return trainer.fit(run.data.train, options);
  } catch (const std::exception&) {
    if (!begun) status.discard();
    if (!begun && run.folder) run.folder->remove();
    throw;
  }
}

// A run that had nothing left to do knows its figures, but not which samples were taken for what.
train::FitResult fit(Run& run, train::Trainer& trainer, const StopSignals& signals,
                     train::StatusReporter& status) {
  train::FitResult result = fit_or_clean_up(run, trainer, signals, status);
  if (result.is_first && !result.is_dismissed && !result.stopped && result.validation.samples == 0)
    result.validation =
        trainer.evaluate(*run.data.test, {.threads = 0,
                                          .transform = transform_of(run.recipe.test_transform),
                                          .keep_predictions = wants_predictions(run),
                                          .metrics = run.recipe.metrics()});
  return result;
}

// What went wrong, or nothing. A full disk takes the report, not the result.
std::string write_report(const Run& run, const recipes::RunOutcome& outcome, nn::Block& net) {
  try {
    write_file(run.folder->result_path(), recipes::outcome_json(outcome) + "\n");
    if (run.options.report)
      recipes::write_run_report(*run.folder, outcome, run.data, net,
                                train_command(outcome.config, outcome.workers));
    return {};
  } catch (const IoError& error) {
    return fmt::format("the report is not written: {}", error.what());
  }
}

void print_outcome(const Run& run, const recipes::RunOutcome& outcome, bool reported) {
  if (run.options.json)
    fmt::print("{}\n", recipes::outcome_json(outcome));
  else if (!outcome.result.stopped)
    fmt::print("{}", outcome_text(outcome, *run.folder, reported ? run.folder->report_path() : ""));
}

std::string describe(const Run& run) {
  const std::string workers = run.options.worker_count() > 1
                                  ? fmt::format("{} workers of ", run.options.worker_count())
                                  : "";
  const std::string servers =
      run.config.servers > 0 ? ", " + observe::format_things(run.config.servers, "server") : "";
  return fmt::format("{}: {}{}{}, {} of {}, run folder {}", run.config.recipe, workers,
                     observe::format_things(used_threads(run), "thread"), servers,
                     observe::format_things(run.config.shards, "shard"),
                     run.config.global_batch / run.config.shards,
                     run.folder ? run.folder->path() : "");
}

// What the command line asks for. The rest of a run that goes on is in its folder.
recipes::RunConfig asked_config(const TrainOptions& options) {
  const recipes::RunConfig usual = recipes::default_config(recipes::find_recipe(options.recipe));
  if (!options.resume) return apply_options(usual, options);
  recipes::RunConfig config = usual;
  if (options.job_servers.value_or(0) > 0)
    apply_mode_options(config, options, options.worker_count());
  return config;
}

// Of a run that was stopped: the exit status, by the worker's own signal, else by that of another.
// Workers that survive others have left their last generation. One of them was asked to stop.
int signal_of_job(cluster::Job& job, int own) {
  constexpr const char* kEntry = "stop signal";
  constexpr std::chrono::seconds kWait{2};
  if (own == 0) return std::stoi(job.get(kEntry, kWait).bytes);
  job.put(kEntry, std::to_string(own));
  return own;
}

// Nobody is gone before the first worker has said how to go on: mpirun and srun end a job when one
// of its tasks ends like that.
int end_together(const Run& run, const StopSignals& signals) {
  std::fflush(stdout);
  run.options.stop_point.pass("end");
  int signal = signals.signal();
  try {
    if (run.job != nullptr)
      signal = signal_of_job(*run.job, signal);
    else
      for (const std::string& other : run.mode->get().group().share(std::to_string(signal)))
        if (signal == 0) signal = std::stoi(other);
  } catch (const Error&) {
    // The model is saved and the user told: a worker that is gone changes nothing.
  }
  return signal == 0 ? kInterrupted : 128 + signal;
}

// What was said cannot be lost any more, if this worker is.
void let_others_go(const Run& run) {
  std::fflush(stdout);
  run.options.stop_point.pass("told");
  try {
    if (run.survival) run.survival->conclude();
  } catch (const Error&) {
    // Our goodbye says the same.
  }
  run.options.stop_point.pass("over");
}

// Of the first worker, once the run is over.
int report_run(const Run& run, const train::FitResult& result, nn::Block& net,
               const StopSignals& signals) {
  const TrainOptions& options = run.options;
  const recipes::RunOutcome outcome{run.config,        run.recipe,         options.worker_count(),
                                    used_threads(run), run.folder->path(), result};
  options.stop_point.pass("report");
  const std::string problem = write_report(run, outcome, net);
  print_outcome(run, outcome, options.report && problem.empty());
  if (!problem.empty()) print_error("lockstep: {}\n", problem);
  if (!result.saved)
    print_error("lockstep: {}: the last step is not saved: {}\n", run.folder->path(),
                result.warnings.empty() ? "" : result.warnings.back());
  let_others_go(run);
  if (!result.stopped) return result.saved && problem.empty() ? 0 : kFailure;
  print_error("lockstep: stopped after step {}; to go on: {}\n", result.steps,
              resume_command(options, run.folder->path()));
  return end_together(run, signals);
}

train::StatusOptions status_options(const Run& run, const Workers& workers, StopSignals& signals) {
  train::StatusOptions options{.job = workers.job.get(), .shards = run.config.shards};
  options.about.recipe = run.config.recipe;
  options.about.workers = run.options.worker_count();
  options.about.launcher = launcher_mark();
  options.on_stop = [&signals] { signals.ask(SIGTERM); };
  options.is_first = is_first(run.options);
  options.folder = run.path;
  options.about.run = run.path;
  return options;
}

// How the run ended, for those who look at it from elsewhere.
void end_status(train::StatusReporter& status, const Run& run, const train::FitResult& result) {
  using State = observe::JobStatus::State;
  if (!result.stopped) return status.end(State::finished);
  const std::string folder = run.folder ? run.folder->path() : "";
  status.end(State::stopped,
             folder.empty() ? "" : "to go on: " + resume_command(run.options, folder));
}

int fit_and_report(Run& run, StopSignals& signals, train::StatusReporter& status) {
  train::Trainer trainer(run.recipe.net(), run.recipe.loss(),
                         recipes::make_optimizer(run.config.learning), trainer_options(run));
  const train::FitResult result = fit(run, trainer, signals, status);
  if (result.is_dismissed) return status.discard(), 0;
  end_status(status, run, result);
  if (result.is_first) return report_run(run, result, trainer.net(), signals);
  return result.stopped ? end_together(run, signals) : 0;
}

// Of several workers the first alone may see the folder.
void decide_to_resume(TrainOptions& options, kvstore::Group& group) {
  if (!options.resume_auto) return;
  options.resume =
      kvstore::first_does(group, [&] { return has_run(options.out) ? "yes" : "no"; }) == "yes";
}

Run open_or_join(TrainOptions& options, const recipes::RunConfig& config, Workers& workers) {
  if (workers.is_late()) return join_run(options, workers);
  options.fair_threads = workers.fair_threads();
  decide_to_resume(options, *workers.group);
  return options.resume ? resume_run(options, workers) : start_run(options, config, workers);
}

int train_with(TrainOptions& options, const recipes::RunConfig& config, Workers& workers,
               StopSignals& signals) {
  options.stop_point.pass("connected");
  Run run = open_or_join(options, config, workers);
  survive(run, workers);
  say(options, describe(run));
  if (!recipes::is_invariant(run.config))
    say(options, recipes::promise_of(run.config, options.worker_count()));
  say_if_slower(run);
  signals.hold();
  options.stop_point.pass("fit");
  train::StatusReporter status(status_options(run, workers, signals));
  const auto listed = run.folder ? list_run(run.folder->path(), options.launcher) : nullptr;
  try {
    return fit_and_report(run, signals, status);
  } catch (const std::exception& error) {
    status.end(observe::JobStatus::State::failed, error.what());
    throw;
  }
}

int train(TrainOptions options) {
  const std::optional<cluster::Place> place = find_train_place();
  if (place && place->is_scheduler) return be_scheduler(options, *place);
  take_place(options, place);
  if (options.resume_auto) check_resume(options);
  if (options.resume_auto && !place) options.resume = has_run(options.out);
  take_model(options);
  const recipes::RunConfig config = asked_config(options);
  check_supported(config);
  if (!place) {
    const recipes::RunConfig whole = checked_config(options, config);
    if (options.worker_count() > 1 || whole.servers > 0) return launch_workers(options, whole);
  }
  if (place && place->role == Role::server) return be_server(options, *place, config);
  StopSignals signals(place.has_value());
  Workers workers = connect_workers(options, place, config);
  if (place && place->rank < 0) take_rank(options, workers.job->rank());
  try {
    return train_with(options, config, workers, signals);
  } catch (const comm::CommError& error) {
    if (workers.job) workers.job->complain(error);
    throw;
  }
}

}  // namespace

void add_train_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      app.add_subcommand("train", "Train a model; the same bits on any machine load");
  command->group(kModelGroup);
  add_train_options(*command, *options);
  command->footer(R"(Examples:
  lockstep train mnist-lenet
  lockstep train cifar-cnn --epochs 20 --optimizer adamw --learning-rate 0.002 --out run
  lockstep train cifar-cnn --resume --out run          after Ctrl-C, a crash or a power cut
  lockstep train cifar-cnn --resume auto --out run     starts it, or goes on: for schedulers
  lockstep train cifar-cnn --resume --epochs 30 --out run    makes a finished run longer
  lockstep train --model resnet50_v1 --data photos     a folder of images for each class
  lockstep train char-gpt --data synthetic --steps 20 --json
  lockstep train cifar-cnn --workers 4 --servers 2 --kvstore ps_sync --replicas 2
  lockstep train recsys-mf --data ml-100k/u.data       ratings: user item rating [time]

Ctrl-C finishes the step, writes a checkpoint and says how to go on (exit status 130; 143 after
SIGTERM). A second Ctrl-C ends the program at once.)");
  command->callback([&action, options] { action = [options] { return train(*options); }; });
}

}  // namespace lockstep::cli
