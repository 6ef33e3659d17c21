// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/elastic_commands.h"
#include "lockstep/cli/job_control.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/cli/train_mode.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cli/train_plan.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/cli/train_run.h"
#include "lockstep/cli/train_workers.h"
#include "lockstep/observe/text.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/recipes/plan_run.h"
#include "lockstep/recipes/run_mode.h"
#include "lockstep/recipes/run_report.h"
#include "lockstep/train/observers.h"
#include "lockstep/train/product_speed.h"
#include "lockstep/train/status_reporter.h"
#include "lockstep/train/survival.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {
namespace {

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
  options.mesh = recipes::mesh_of(run.config);
  options.schedule = parallel::parse_schedule(run.options.mesh.schedule);
  options.recompute = run.options.mesh.recompute;
  options.deals_by_speed = run.options.deal.kind == Deal::Kind::speed;
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
  callbacks.push_back(train::on_step([&begun, &options](auto&, const train::StepEvent& event) {
    options.stop_point.pass(begun ? "step" : "first step");
    begun = true;
    options.fail_point.pass(event.step);
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
          .leave = &signals.asked_to_leave(),
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
  recipes::RunOutcome outcome{run.config,         run.recipe,         options.worker_count(),
                              used_threads(run),  run.folder->path(), result,
                              options.shard_state};
  outcome.stages = options.mesh.stages();
  outcome.tensor = options.mesh.tensor();
  options.stop_point.pass("report");
  const std::string problem = write_report(run, outcome, net);
  print_outcome(run, outcome, options.report && problem.empty());
  if (!problem.empty()) print_error("lockstep: {}\n", problem);
  if (!result.saved)
    print_error("lockstep: {}: the last step is not saved: {}\n", run.folder->path(),
                result.warnings.empty() ? "" : result.warnings.back());
  remove_control(run.folder->path());
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
  options.about.launcher = run.control ? run.control->launcher : launcher_mark();
  options.on_stop = [&signals] { signals.ask(SIGTERM); };
  options.is_first = is_first(run.options);
  options.folder = run.path;
  options.about.run = run.path;
  if (run.survival)
    options.stall_timeout =
        std::chrono::milliseconds(static_cast<std::int64_t>(run.options.stall_timeout * 1000));
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

bool is_pod(const TrainOptions& options) {
  return options.launcher == cluster::Place::Launcher::kubernetes;
}

int fit_and_report(Run& run, StopSignals& signals, train::StatusReporter& status) {
  train::Trainer trainer(run.recipe.net(), run.recipe.loss(),
                         recipes::make_optimizer(run.config.learning), trainer_options(run));
  const train::FitResult result = fit(run, trainer, signals, status);
  if (result.is_dismissed) {
    status.discard();
    // A pod that ends well is done; one that was asked to leave is to be replaced.
    return is_pod(run.options) && signals.asked_to_leave() ? 128 + SIGTERM : 0;
  }
  end_status(status, run, result);
  if (result.is_first) return report_run(run, result, trainer.net(), signals);
  return result.stopped ? end_together(run, signals) : 0;
}

// In mpirun, Slurm and Kubernetes: when this worker leaves, the job is over, and is stopped.
bool coordinates(const TrainOptions& options) {
  return options.launcher != cluster::Place::Launcher::lockstep && options.rank == 0;
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
  if (run.survival && !coordinates(options)) signals.let_leave();
  options.stop_point.pass("fit");
  train::StatusReporter status(status_options(run, workers, signals));
  const auto listed = run.folder ? list_run(run.folder->path(), options.launcher) : nullptr;
  try {
    return fit_and_report(run, signals, status);
  } catch (const std::exception& error) {
    status.end(observe::JobStatus::State::failed, error.what());
    if (run.folder) remove_control(run.folder->path());
    throw;
  }
}

// Where a part that is lost is nowhere else, nobody goes on without it.
void settle_losses(TrainOptions& options, bool fail_fast) {
  const bool has_cells = options.mesh.parts() > 1;
  options.begins_again = (has_cells || options.shard_state > 0) && !fail_fast;
  options.fail_fast = fail_fast || has_cells;
}

int train(TrainOptions options) {
  take_placement(options);
  take_pipeline_schedule(options);
  const bool fail_fast = options.fail_fast;
  settle_losses(options, fail_fast);
  const std::optional<cluster::Place> place = find_train_place();
  if (place && place->is_scheduler) return be_scheduler(options, *place);
  take_place(options, place);
  if (options.resume_auto) check_resume(options);
  if (options.resume_auto && !place) options.resume = has_run(options.out);
  take_model(options);
  if (options.plan && place && !options.is_planned)
    throw WrongUsage(fmt::format(
        "--plan {}: is for lockstep train --workers N; in a job that somebody launched, give the "
        "words that lockstep plan says",
        *options.plan));
  if (options.plan && !place) {
    take_plan(options, checked_config(options, asked_config(options)));
    settle_losses(options, fail_fast);
  }
  const recipes::RunConfig config = asked_config(options);
  check_supported(config);
  if (place && !options.resume) check_deal(options.deal, config, options.worker_count());
  if (!place) {
    const recipes::RunConfig whole = checked_config(options, config);
    check_deal(options.deal, whole, options.worker_count());
    if (!options.store.empty()) check_store(options, whole);
    const bool has_others = options.worker_count() > 1 || whole.servers > 0;
    if (has_others && !options.resume) recipes::check_net(whole);
    if (has_others) return launch_workers(options, whole);
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

// A worker that nobody launched: what it is to train, it hears from the others.
int join(TrainOptions options, const std::string& which) {
  const JobControl control = find_control(which, "join");
  cluster::Place place;
  place.rank = -1;
  place.is_late = true;
  place.workers = 2;  // or more
  place.coordinator = control.coordinator;
  place.secret = control.secret;
  place.store = control.store;
  place.job = control.job;
  options.is_guest = true;
  options.rank = -1;
  options.workers = place.workers;
  options.job_servers = 0;
  options.launcher = place.launcher;
  StopSignals signals(false);
  signals.leave_on_any();
  Workers workers = connect_workers(options, place, {});
  workers.control = control;
  print_error("lockstep: worker {} gets ready\n", workers.job->id());
  return train_with(options, {}, workers, signals);
}

}  // namespace

void add_join_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<TrainOptions>();
  const auto which = std::make_shared<std::string>();
  options->quiet = true;
  CLI::App* command = app.add_subcommand("join", "Be one more worker of a job that is under way");
  command->group(kJobGroup);
  command
      ->add_option("job", *which,
                   "Its run folder; or where its coordinator listens, with the secret in "
                   "LOCKSTEP_SECRET")
      ->type_name("RUNDIR|HOST:PORT")
      ->required();
  add_guest_options(*command, *options);
  command->footer(R"(Examples:
  lockstep join run                              on this host, or one that sees the run folder
  LOCKSTEP_SECRET=... lockstep join a:41234      where control.json in the run folder says

It opens the same data by itself, proves that it computes the same bits, and computes from the next
step on. Ctrl-C or SIGTERM: it leaves after its step. A job on one machine listens on loopback
alone; lockstep launch --coordinator ADDRESS lets others come.)");
  command->callback(
      [&action, options, which] { action = [options, which] { return join(*options, *which); }; });
}

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
