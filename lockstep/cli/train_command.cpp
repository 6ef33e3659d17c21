// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/print_error.h"
#include "lockstep/cli/run_files.h"
#include "lockstep/cli/run_report.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/cli/train_mode.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/cli/train_workers.h"
#include "lockstep/kvstore/long_work.h"
#include "lockstep/observe/text.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/product_speed.h"
#include "lockstep/train/same_bits.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {
namespace {

using observe::RunFolder;

// Everything of a run that the command line and the run's folder decide.
struct Job {
  const TrainOptions& options;
  RunConfig config;
  train::Recipe recipe;
  int threads;  // as asked for
  train::RecipeData data;
  std::optional<RunFolder> run;
  std::optional<TrainMode> mode;
};

int thread_count(const TrainOptions& options) {
  return options.threads > 0 ? options.threads : options.fair_threads;
}

// More threads than a worker has shards have nothing to do.
int used_threads(const Job& job) {
  std::int64_t most = 1;
  for (const ShardRange& range : job.mode->get().group().membership().deal(job.config.shards))
    most = std::max(most, range.hi - range.lo);
  return static_cast<int>(std::min<std::int64_t>(job.threads, most));
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

train::RecipeData open_job_data(const Job& job, train::TextCodecPtr codec) {
  observe::Progress progress(progress_target(job.options));
  RunConfig config = job.config;
  apply_limits(config, job.options.limits);
  return open_run_data(config, std::move(codec), progress, job.options.skip_bad);
}

void check_size(const Job& job) {
  const std::int64_t samples = job.data.train->size(), shards = job.config.shards;
  if (samples >= job.config.global_batch) return;
  throw InvalidArgument(
      "{}: has {} samples for training, fewer than a global batch of {}; choose {}",
      job.config.data.empty() ? job.recipe.dataset : job.config.data, samples,
      job.config.global_batch,
      samples < shards ? "a smaller --global-batch and fewer --shards"
                       : fmt::format("--global-batch {} or less", samples - samples % shards));
}

std::int64_t total_steps(const Job& job) {
  if (job.config.steps > 0) return job.config.steps;
  const std::int64_t of_epoch = job.data.train->size() / job.config.global_batch;
  if (job.config.epochs > std::numeric_limits<std::int64_t>::max() / of_epoch)
    throw WrongUsage(fmt::format("--epochs {}: too many to count their steps", job.config.epochs));
  return job.config.epochs * of_epoch;
}

optim::Schedule schedule_of(const Job& job) {
  return train::make_schedule(job.config.learning, total_steps(job));
}

// Fetching a data set takes a host its time, and others wait for it.
void open_data_together(Job& job, const Workers& workers, train::TextCodecPtr codec) {
  kvstore::work_together(*workers.group, job.options.patience(), "open data", [&] {
    job.options.stop_point.pass("data");
    job.data = open_job_data(job, std::move(codec));
  });
}

void check_data(const Job& job, const Workers& workers) {
  job.options.stop_point.pass("compare");
  compare_data(workers, job.data, job.config);
}

train::TextCodecPtr codec_from(const std::string& vocabulary, const train::Recipe& recipe) {
  if (vocabulary.empty()) return {};
  return std::make_shared<train::TextCodec>(recipe,
                                            data::Vocabulary::parse(vocabulary, "worker 0"));
}

// Throws when the workers' links cannot do what is asked for.
void make_mode(Job& job, const Workers& workers) {
  job.mode.emplace(workers.communicator(), workers.group->membership(), job.config,
                   job.options.patience());
}

// Of several workers the first makes the folder, when all have their data.
void make_run(Job& job) {
  job.run.emplace(new_run(job.options));
  write_classes(*job.run, job.data.test->class_names());
  if (job.data.codec) write_codec(*job.run, *job.data.codec);
  job.run->write_config(to_json(job.config));  // last: with it the folder is a run
}

Job start_job(const TrainOptions& options, const RunConfig& config, const Workers& workers) {
  Job job{options, config, train::find_recipe(config.recipe), thread_count(options), {}, {}, {}};
  job.config.isa = to_string(train::agree_on_instruction_set(*workers.group));
  options.stop_point.pass("folder");
  kvstore::first_does(*workers.group, [&] { return check_out(options.out), std::string(); });
  open_data_together(job, workers, {});
  job.recipe = run_recipe(job.config, job.data.test->class_names());
  check_size(job);
  schedule_of(job);  // what is wrong with it is told before there is a folder
  check_data(job, workers);
  make_mode(job, workers);
  options.stop_point.pass("run");
  kvstore::first_does(*workers.group, [&] { return make_run(job), std::string(); });
  return job;
}

// What a run was started with: kept in its folder, which the first worker alone may see.
struct BeginOfRun {
  RunConfig config;
  std::vector<std::string> classes;
  std::string vocabulary;  // empty: none

  std::string to_text() const {
    return nlohmann::json{
        {"config", to_json(config)}, {"classes", classes}, {"vocabulary", vocabulary}}
        .dump();
  }
  static BeginOfRun from_text(const std::string& text) {
    const auto json = nlohmann::json::parse(text);
    return {config_from_json(json.at("config"), "worker 0"), json.at("classes"),
            json.at("vocabulary")};
  }
};

// What decides no bit may differ from the first time. A run that met a bad image may go on without
// it: samples keep their numbers, and another one takes its place.
BeginOfRun open_run(const TrainOptions& options, std::optional<RunFolder>& run) {
  run.emplace(RunFolder::resume(options.out));
  const RunConfig before = config_from_json(run->read_config(), run->config_path());
  std::vector<std::string> ignored{"version", "kvstore", "skip_bad", "max_inflated"};
  if (!before.skip_bad) ignored.emplace_back("max_pixels");  // else it decides what is left out
  observe::check_same_config(*run, to_json(apply_options(before, options)), ignored,
                             older_defaults());
  const std::vector<std::string> classes = read_classes(*run);
  const train::TextCodecPtr codec = read_codec(*run, run_recipe(before, classes));
  return {before, classes, codec ? codec->vocabulary().format() : ""};
}

void check_resume(const TrainOptions& options) {
  if (options.out.empty()) throw WrongUsage("--resume: needs --out RUNDIR, the run to go on with");
}

// What is wrong is told once, before there are workers.
int launch(const TrainOptions& options) {
  if (options.resume) {
    check_resume(options);
    std::optional<RunFolder> run;
    open_run(options, run);
  }
  return launch_workers(options);
}

// With the instructions that the run began with where all workers have them: it keeps its bits.
void agree_again(const RunConfig& config, const Workers& workers) {
  std::optional<InstructionSet> recorded;
  if (!config.isa.empty()) recorded = parse_instruction_set(config.isa);
  train::agree_on_instruction_set(*workers.group, recorded);
}

Job resume_job(const TrainOptions& options, const Workers& workers) {
  check_resume(options);
  options.stop_point.pass("folder");
  std::optional<RunFolder> run;
  const BeginOfRun begin = BeginOfRun::from_text(
      kvstore::first_does(*workers.group, [&] { return open_run(options, run).to_text(); }));
  agree_again(begin.config, workers);
  const train::Recipe recipe = run_recipe(begin.config, begin.classes);
  Job job{options, begin.config, recipe, thread_count(options), {}, std::move(run), {}};
  open_data_together(job, workers, codec_from(begin.vocabulary, recipe));
  check_classes(begin.config, *job.data.test, begin.classes);
  check_size(job);
  check_data(job, workers);
  make_mode(job, workers);
  return job;
}

train::TrainerOptions trainer_options(const Job& job) {
  train::TrainerOptions options{.global_batch = job.config.global_batch,
                                .shards = job.config.shards,
                                .threads = job.threads,
                                .seed = job.config.seed};
  options.compile.compute = dtype_from_name(job.config.dtype);
  options.mode = &job.mode->get();
  options.allow_different_bits = job.options.allow_different_bits;
  return options;
}

data::Transform transform_of(data::Transform (*make)()) {
  return make == nullptr ? data::Transform{} : make();
}

// The report needs to know which samples were taken for what.
class KeepPredictions final : public train::Callback {
 public:
  bool wants_predictions() const override { return true; }
};

bool wants_predictions(const Job& job) {
  return job.options.report && job.recipe.task != train::Task::characters;
}

train::FitOptions fit_options(const Job& job, const StopSignals& signals, bool& begun) {
  const TrainOptions& options = job.options;
  std::vector<train::CallbackPtr> callbacks{train::show_progress(progress_target(options))};
  callbacks.push_back(train::on_step([&begun, &options](auto&, auto&) {
    options.stop_point.pass(begun ? "step" : "first step");
    begun = true;
  }));
  if (is_first(options)) callbacks.push_back(train::record_metrics(*job.run));
  if (wants_predictions(job)) callbacks.push_back(std::make_shared<KeepPredictions>());
  return {.epochs = job.config.epochs,
          .steps = job.config.steps,
          .transform = transform_of(job.recipe.train_transform),
          .schedule = schedule_of(job),
          .callbacks = std::move(callbacks),
          .validation = job.data.test,
          .validation_transform = transform_of(job.recipe.test_transform),
          .evaluate_every = job.config.eval_every,
          .checkpoints = job.run ? job.run->checkpoints_path() : "",
          .checkpoint_every = options.checkpoint_every,
          .keep_last = options.keep,
          .resume = options.resume,
          .configuration = to_json(job.config),
          .older_configuration = older_defaults(),
          .stop = &signals.asked(),
          .skip_bad = job.config.skip_bad || options.skip_bad};
}

// bfloat16 may be wanted for its bits, or for another processor: the run goes on.
void say_if_slower(const Job& job) {
  if (job.config.dtype != "bfloat16" || job.options.quiet || !is_first(job.options)) return;
  const nn::BlockPtr net = job.recipe.net();
  const train::StepGraph step = train::trace_step(
      *net, train::recipe_loss(), job.recipe.fields(job.config.global_batch / job.config.shards));
  const std::string notice =
      bfloat16_notice(train::bfloat16_speedup(step.graph), instruction_set_in_use());
  if (!notice.empty()) say(job.options, notice);
}

// A run that fails before its first step leaves no folder.
train::FitResult fit_or_clean_up(const Job& job, train::Trainer& trainer,
                                 const StopSignals& signals) {
  bool begun = job.options.resume;
  try {
    return trainer.fit(job.data.train, fit_options(job, signals, begun));
  } catch (const std::exception&) {
    if (!begun && job.run) job.run->remove();
    throw;
  }
}

// A run that had nothing left to do knows its figures, but not which samples were taken for what.
train::FitResult fit(const Job& job, train::Trainer& trainer, const StopSignals& signals) {
  train::FitResult result = fit_or_clean_up(job, trainer, signals);
  if (is_first(job.options) && !result.stopped && result.validation.samples == 0)
    result.validation =
        trainer.evaluate(*job.data.test, {.threads = 0,
                                          .transform = transform_of(job.recipe.test_transform),
                                          .keep_predictions = wants_predictions(job)});
  return result;
}

// What went wrong, or nothing. A full disk takes the report, not the result.
std::string write_report(const Job& job, const TrainOutcome& outcome, nn::Block& net) {
  try {
    write_file(job.run->result_path(), outcome_json(outcome) + "\n");
    if (job.options.report) write_run_report(*job.run, outcome, job.data, net);
    return {};
  } catch (const IoError& error) {
    return fmt::format("the report is not written: {}", error.what());
  }
}

void print_outcome(const Job& job, const TrainOutcome& outcome, bool reported) {
  if (job.options.json)
    fmt::print("{}\n", outcome_json(outcome));
  else if (!outcome.result.stopped)
    fmt::print("{}", outcome_text(outcome, *job.run, reported ? job.run->report_path() : ""));
}

std::string describe(const Job& job) {
  const std::string workers = job.options.worker_count() > 1
                                  ? fmt::format("{} workers of ", job.options.worker_count())
                                  : "";
  return fmt::format("{}: {}{}, {} of {}, run folder {}", job.config.recipe, workers,
                     observe::format_things(used_threads(job), "thread"),
                     observe::format_things(job.config.shards, "shard"),
                     job.config.global_batch / job.config.shards, job.run ? job.run->path() : "");
}

// What the command line asks for. The rest of a run that goes on is in its folder.
RunConfig asked_config(const TrainOptions& options) {
  const RunConfig usual = default_config(train::find_recipe(options.recipe));
  return options.resume ? usual : apply_options(usual, options);
}

// Of a run that was stopped: the exit status, by the worker's own signal, else by that of another.
// Nobody is gone before the first worker has said how to go on: mpirun and srun end a job when one
// of its tasks ends like that.
int end_together(const Job& job, const StopSignals& signals) {
  std::fflush(stdout);
  job.options.stop_point.pass("end");
  int signal = 0;
  try {
    for (const std::string& other : job.mode->get().group().share(std::to_string(signals.signal())))
      if (signal == 0) signal = std::stoi(other);
  } catch (const Error&) {
    // All is saved and said.
  }
  if (signals.signal() != 0) signal = signals.signal();
  return signal == 0 ? kInterrupted : 128 + signal;
}

// Of the first worker, once the run is over.
int report_run(const Job& job, const train::FitResult& result, nn::Block& net,
               const StopSignals& signals) {
  const TrainOptions& options = job.options;
  const TrainOutcome outcome{job.config,        job.recipe,      options.worker_count(),
                             used_threads(job), job.run->path(), result};
  const std::string problem = write_report(job, outcome, net);
  print_outcome(job, outcome, options.report && problem.empty());
  if (!problem.empty()) print_error("lockstep: {}\n", problem);
  if (!result.saved)
    print_error("lockstep: {}: the last step is not saved: {}\n", job.run->path(),
                result.warnings.empty() ? "" : result.warnings.back());
  if (!result.stopped) return result.saved && problem.empty() ? 0 : kFailure;
  print_error("lockstep: stopped after step {}; to go on: {}\n", result.steps,
              resume_command(options, job.run->path()));
  return end_together(job, signals);
}

int train_with(TrainOptions& options, const RunConfig& config, const Workers& workers,
               StopSignals& signals) {
  options.stop_point.pass("connected");
  options.fair_threads = workers.fair_threads();
  Job job = options.resume ? resume_job(options, workers) : start_job(options, config, workers);
  say(options, describe(job));
  if (!is_invariant(job.config)) say(options, promise_of(job.config, options.worker_count()));
  say_if_slower(job);
  signals.hold();
  options.stop_point.pass("fit");
  train::Trainer trainer(job.recipe.net(), train::recipe_loss(),
                         train::make_optimizer(job.config.learning), trainer_options(job));
  const train::FitResult result = fit(job, trainer, signals);
  if (is_first(options)) return report_run(job, result, trainer.net(), signals);
  return result.stopped ? end_together(job, signals) : 0;
}

int train(TrainOptions options) {
  const std::optional<cluster::Place> place = find_train_place();
  take_place(options, place);
  const RunConfig config = asked_config(options);
  if (!place && options.worker_count() > 1) return launch(options);
  StopSignals signals(place.has_value());
  const Workers workers = connect_workers(options, place, config);
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
  lockstep train char-gpt --data synthetic --steps 20 --json

Ctrl-C finishes the step, writes a checkpoint and says how to go on (exit status 130; 143 after
SIGTERM). A second Ctrl-C ends the program at once.)");
  command->callback([&action, options] { action = [options] { return train(*options); }; });
}

}  // namespace lockstep::cli
