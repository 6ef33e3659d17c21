// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/paths.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/net_size.h"
#include "lockstep/cli/options.h"
#include "lockstep/cli/train_mode.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/recipes/model_recipes.h"
#include "lockstep/recipes/rating_data.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTraining = "Training";
constexpr const char* kLearning = "Learning (the recipe's own by default)";
constexpr const char* kRun = "The run";
constexpr const char* kCluster = "Several processes";
constexpr const char* kMesh = "A net in segments and slices";

constexpr const char* kResumeAuto = "--resume-auto";

// Names that help and completion show; whether one is good is found out later.
CLI::Validator known_names(const std::string& names) {
  return CLI::Validator([](const std::string&) { return std::string(); }, "{" + names + "}");
}

void add_training(CLI::App& c, TrainOptions& o) {
  c.add_option("recipe", o.recipe, "What to train")
      ->type_name("RECIPE")
      ->check(CLI::IsMember(recipes::recipe_names()));
  add(c, kTraining, "--model", o.model, "NAME",
      "Instead of a recipe: a model of images from the library, on --data (see lockstep models)")
      ->check(CLI::IsMember(recipes::model_recipe_names()));
  add(c, kTraining, "--data", o.data, "DIR|FILE|synthetic",
      "A folder with the data set's files, a file of ratings, or generated data; fetched by "
      "default")
      ->check(not_empty());
  CLI::Option* epochs =
      add_count(c, kTraining, "--epochs", o.epochs, "N", "How often each sample is seen");
  add_count(c, kTraining, "--steps", o.steps, "N", "How many global batches instead")
      ->excludes(epochs);
  add_count(c, kTraining, "--global-batch", o.global_batch, "B", "Samples of a step");
  add_count(c, kTraining, "--shards", o.shards, "S",
            "Equal parts of a global batch: what a thread computes");
  add_count(c, kTraining, "--threads", o.threads, "T",
            "Compute threads, by default as many as cores that this process may use, or a worker's "
            "share of them; never changes the result");
  add_count(c, kTraining, "--seed", o.seed, "K", "Of everything that is drawn", 0);
  add_count(c, kTraining, "--image-size", o.image_size, "N",
            "With --model: images are made N x N; their own size by default", 1, 4096);
  add_net_size(c, kTraining, o.width, o.blocks);
  add(c, kTraining, "--split", o.split, "HOW",
      "Which tenth of the ratings is held out: pairs by their hash, or the latest")
      ->check(CLI::IsMember(recipes::rating_splits()))
      ->default_str("pairs");
  c.add_flag("--bf16", o.bf16, "Compute products in bfloat16, keep parameters in float32")
      ->group(kTraining);
  c.add_flag("--skip-bad", o.skip_bad, "Leave out images that do not decode and bad ratings")
      ->group(kTraining);
  add_limits(c, o.limits, kTraining);
}

void add_learning(CLI::App& c, TrainOptions& o) {
  add(c, kLearning, "--optimizer", o.optimizer, "NAME", "The update rule")
      ->check(CLI::IsMember(optim::optimizer_names()));
  add_real(c, kLearning, "--learning-rate", o.learning_rate, "X", "The schedule's highest");
  add_real(c, kLearning, "--momentum", o.momentum, "X", "Of the rules that have one");
  add_real(c, kLearning, "--weight-decay", o.weight_decay, "X", "Pulls weights to zero",
           real_number(0));
  add_real(c, kLearning, "--clip-norm", o.clip_norm, "X", "The gradient is no longer than this",
           real_number(0));
  std::vector<std::string> schedules = recipes::schedule_names();
  for (const std::string& name : pipeline_schedules()) schedules.push_back(name);
  add(c, kLearning, "--schedule", o.schedule, "NAME",
      "How the rate falls; or a pipeline's order, as --pipeline-schedule")
      ->check(CLI::IsMember(schedules));
  add_real(c, kLearning, "--warm-up", o.warm_up, "X", "Part of the run in which the rate rises",
           real_number(0));
}

void add_run(CLI::App& c, TrainOptions& o) {
  add(c, kRun, "--out", o.out, "RUNDIR", "The run's folder; runs/RECIPE-N by default")
      ->check(not_empty());
  CLI::Option* resume =
      c.add_flag(
           "--resume", o.resume,
           "Go on with the run in --out, from its newest checkpoint; --resume auto starts one "
           "where there is none")
          ->group(kRun);
  c.add_flag(kResumeAuto, o.resume_auto)->group("")->excludes(resume);
  add_count(c, kRun, "--checkpoint-every", o.checkpoint_every, "N",
            "Steps between checkpoints; an epoch by default");
  add_count(c, kRun, "--keep", o.keep, "N", "Checkpoints that stay, and the best one")
      ->default_str("3");
  add_count(c, kRun, "--eval-every", o.eval_every, "N",
            "Steps between evaluations; an epoch by default");
  c.add_flag_callback(
       "--no-report", [&o] { o.report = false; }, "Write no report.html")
      ->group(kRun);
  c.add_flag("--json", o.json, "One JSON object on standard output at the end")->group(kRun);
  c.add_flag("--quiet", o.quiet, "No progress")->group(kRun);
}

// Of a job of several workers in step: it goes on when some are lost.
void add_survival(CLI::App& c, TrainOptions& o) {
  add_count(c, kCluster, "--min-workers", o.min_workers, "N",
            "Fewer workers wait until others have come", 1, 1 << 20)
      ->default_str("1");
  add_count(c, kCluster, "--max-workers", o.max_workers, "N",
            "More workers wait for a place; at most one for each shard", 1, 1 << 20)
      ->default_str("as many as shards");
  add_count(c, kCluster, "--max-restarts", o.max_restarts, "N",
            "How many workers are started in the place of lost ones", 0, 1 << 20)
      ->default_str("20");
  add_real(c, kCluster, "--heartbeat", o.heartbeat, "SECONDS",
           "A worker that is not heard for so long is lost", seconds())
      ->default_str("3");
  add_real(c, kCluster, "--stall-timeout", o.stall_timeout, "SECONDS",
           "A worker for which others wait so long is put out, though it is heard", seconds())
      ->default_str("never");
  add_store_option(c, o.store, kCluster);
  c.add_flag("--fail-fast", o.fail_fast, "The job ends when a worker is lost")->group(kCluster);
  c.add_option_function<std::string>(
       "--deal", [&o](const std::string& text) { o.deal = Deal::parse(text); },
       "Who computes how many shards: evenly, by speed, or as said; the bits are the same")
      ->type_name("even|speed|fixed:3,3,2")
      ->default_str("even")
      ->group(kCluster);
}

void add_cluster(CLI::App& c, TrainOptions& o) {
  add_count(c, kCluster, "--workers", o.workers, "W", "Processes on this machine", 1, 1 << 20)
      ->default_str("1");
  add_count(c, kCluster, "--servers", o.servers, "S",
            "Processes beside the workers that keep the parameters, with --kvstore ps_*", 1,
            1 << 20)
      ->default_str("1 with --kvstore ps_*");
  add(c, kCluster, "--kvstore", o.kvstore, "MODE", "How gradients become parameters")
      ->check(known_names("local,allreduce,ps_sync,ps_async,ps_ssp,device,dist_sync,dist_async,"
                          "dist_device_sync,horovod"))
      ->default_str("local, allreduce with several workers");
  add_count(c, kCluster, "--replicas", o.replicas, "N",
            "Servers that have each value, 2 for a job that survives the loss of one", 1, 1 << 20)
      ->default_str("1");
  add_count(c, kCluster, "--staleness", o.staleness, "N",
            "With --kvstore ps_ssp: steps that a worker may be ahead of the slowest", 0)
      ->default_str("3");
  add(c, kCluster, "--stale-gradients", o.stale_gradients, "HOW",
      "With --kvstore ps_async and ps_ssp: what those of older weights count for")
      ->check(known_names("damped,whole"))
      ->default_str("damped");
  add(c, kCluster, "--algorithm", o.algorithm, "A", "How workers add gradients")
      ->check(known_names("tree,hierarchical,central,ring,multi_ring,native"))
      ->default_str("tree");
  add(c, kCluster, "--compression", o.compression, "C",
      "Of gradients on their way, 2bit:THRESHOLD and topk:RATIO too")
      ->check(known_names("none,fp16,bf16,1bit,2bit,topk"))
      ->default_str("none");
  add_count(c, kCluster, "--shard-state", o.shard_state, "STAGE",
            "What workers have together, each a part: 1 what the optimizer keeps, 2 gradients too, "
            "3 parameters too, gathered segment by segment; the bits are the same",
            0, 3)
      ->default_str("0");
  c.add_flag("--allow-different-bits", o.allow_different_bits,
             "Go on when processors compute different bits")
      ->group(kCluster);
  add_real(c, kCluster, "--wait", o.wait, "SECONDS", "How long one worker waits for another",
           seconds())
      ->default_str("60");
  add_real(c, kCluster, "--grace", o.grace, "SECONDS",
           "How long workers may take to stop before they are killed", seconds())
      ->default_str("10");
  add_care_options(c, o.care, kCluster);
  add_connect_options(c, o.connect, kCluster);
  add_survival(c, o);
}

void add_plan(CLI::App& c, TrainOptions& o) {
  add(c, kMesh, "--plan", o.plan, "HOW",
      "Choose who has what: auto keeps the result's bits where that fits, fastest need not")
      ->check(CLI::IsMember({"auto", "fastest"}));
  add(c, kMesh, "--memory-limit", o.memory_limit, "BYTES",
      "With --plan: what a worker may plan for a step, such as 2GB")
      ->default_str("its share of this machine's");
  c.add_flag(kPlanned, o.is_planned)->group("");
}

void check_cluster(const TrainOptions& options, const recipes::RunConfig& config) {
  check_mesh(config, options.mesh, options.worker_count(), options.shard_state == 3);
  if (options.mesh.parts() > 1 && options.deal.kind != Deal::Kind::even)
    throw WrongUsage(
        fmt::format("{} with --deal {}: replicas of several workers share the shards evenly",
                    shape_words(options.mesh), options.deal.str()));
  if (options.worker_count() / options.mesh.parts() > config.shards)
    throw WrongUsage(fmt::format("--workers {} with --shards {}: {} computes at least one shard",
                                 options.worker_count(), config.shards,
                                 options.mesh.parts() == 1
                                     ? "a worker"
                                     : fmt::format("a replica ({})", shape_words(options.mesh))));
  const std::int64_t most = options.max_workers.value_or(config.shards * options.mesh.parts());
  if (most < options.worker_count())
    throw WrongUsage(fmt::format("--max-workers {} with --workers {}: expected as many or more",
                                 most, options.worker_count()));
  if (options.min_workers && *options.min_workers > most)
    throw WrongUsage(
        fmt::format("--min-workers {}: at most {} can come", *options.min_workers, most));
}

void check_config(const recipes::RunConfig& config) {
  if (config.global_batch % config.shards != 0)
    throw WrongUsage(
        fmt::format("--global-batch {} with --shards {}: the shards must divide the batch evenly",
                    config.global_batch, config.shards));
  try {
    recipes::make_optimizer(config.learning);
    recipes::make_schedule(config.learning, 100);
  } catch (const Error& error) {
    throw WrongUsage(error.what());
  }
}

template <class T, class U>
void take(T& value, const std::optional<U>& given) {
  if (given) value = *given;
}

void take(std::map<std::string, double>& values, const char* name,
          const std::optional<double>& given) {
  if (given) values[name] = *given;
}

// Another rule keeps what every rule has; a momentum belongs to the recipe's own.
void apply_learning(recipes::Learning& learning, const TrainOptions& options) {
  if (options.optimizer && *options.optimizer != learning.optimizer) {
    learning.optimizer = *options.optimizer;
    std::erase_if(learning.parameters,
                  [](const auto& p) { return p.first != "wd" && p.first != "clip_norm"; });
  }
  take(learning.learning_rate, options.learning_rate);
  take(learning.schedule, options.schedule);
  take(learning.warm_up, options.warm_up);
  take(learning.parameters, "momentum", options.momentum);
  take(learning.parameters, "wd", options.weight_decay);
  take(learning.parameters, "clip_norm", options.clip_norm);
}

// A folder is kept as an absolute path: a run may be resumed from elsewhere.
std::string data_place(const std::string& given) {
  if (given.empty() || given == "synthetic") return given;
  return absolute_path(given);
}

void apply_length(recipes::RunConfig& config, const TrainOptions& options) {
  if (!options.epochs && !options.steps) return;
  config.epochs = options.epochs.value_or(0);
  config.steps = options.steps.value_or(0);
}

}  // namespace

std::vector<std::string> join_resume_auto(std::vector<std::string> words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--resume=auto") words[i] = kResumeAuto;
    if (words[i] != "--resume" || i + 1 == words.size() || words[i + 1] != "auto") continue;
    words[i] = kResumeAuto;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return words;
}

bool has_run(const std::string& folder) {
  std::error_code error;
  return !folder.empty() && std::filesystem::exists(folder + "/config.json", error);
}

void take_model(TrainOptions& options) {
  if (!options.model.empty() && !options.recipe.empty())
    throw WrongUsage(
        fmt::format("train: {} and --model {}: choose one", options.recipe, options.model));
  if (!options.model.empty()) options.recipe = options.model;
  const bool goes_on = options.resume || (options.resume_auto && has_run(options.out));
  if (options.recipe.empty() && goes_on && !options.out.empty()) {
    const observe::RunFolder run = observe::RunFolder::open(options.out);  // without its lock
    options.recipe = recipes::config_from_json(run.read_config(), run.config_path()).recipe;
  }
  if (options.recipe.empty())
    throw WrongUsage("train: recipe is required, or --model NAME; `lockstep models` lists both");
  if (options.split && !recipes::find_recipe(options.recipe).is_recommender())
    throw WrongUsage(fmt::format("--split {}: {} has no ratings", *options.split, options.recipe));
  if (options.image_size && !recipes::find_recipe(options.recipe).from_data)
    throw WrongUsage(fmt::format("--image-size {}: {} takes its samples as they are",
                                 *options.image_size, options.recipe));
}

void take_placement(TrainOptions& options) {
  const std::optional<Placement> placement = placement_of(options.mesh);
  if (!placement) return;
  if (options.workers && *options.workers != placement->workers())
    throw WrongUsage(fmt::format("--placement {} with --workers {}: it has {}",
                                 *options.mesh.placement, *options.workers, placement->workers()));
  options.workers = placement->workers();
  options.mesh.pipeline = placement->pipeline;
  options.mesh.tensor_workers = placement->tensor;
}

// Two things have that name: how the learning rate falls, and the order of a pipeline's passes.
void take_pipeline_schedule(TrainOptions& options) {
  const std::vector<std::string> names = pipeline_schedules();
  if (!options.schedule || std::ranges::find(names, *options.schedule) == names.end()) return;
  options.mesh.schedule = *options.schedule;
  options.schedule.reset();
}

void add_guest_options(CLI::App& c, TrainOptions& o) {
  add_count(c, kCluster, "--threads", o.threads, "T", "Computing threads")
      ->default_str("as many as the other workers have");
  add_real(c, kCluster, "--wait", o.wait, "SECONDS", "How long to wait for another worker",
           seconds())
      ->default_str("60");
  add_connect_options(c, o.connect, kCluster);
}

void add_train_options(CLI::App& command, TrainOptions& options) {
  add_training(command, options);
  add_learning(command, options);
  add_run(command, options);
  add_cluster(command, options);
  add_mesh_options(command, options.mesh, kMesh);
  add_plan(command, options);
}

recipes::RunConfig apply_options(recipes::RunConfig config, const TrainOptions& options) {
  config.recipe = options.recipe;
  if (options.data) config.data = data_place(*options.data);
  apply_length(config, options);
  if (options.global_batch && *options.global_batch != config.global_batch && !options.shards &&
      recipes::find_recipe(config.recipe).has_batch_norm)
    config.shards = std::min(config.shards, train::default_shards(*options.global_batch));
  if (config.data.empty() && recipes::find_recipe(config.recipe).from_data)
    throw WrongUsage(fmt::format("--model {}: needs --data DIR|synthetic", config.recipe));
  take(config.image_size, options.image_size);
  take(config.split, options.split);
  take(config.width, options.width);
  take(config.blocks, options.blocks);
  check_net_size(config);
  take(config.global_batch, options.global_batch);
  take(config.shards, options.shards);
  take(config.seed, options.seed);
  if (options.bf16) config.dtype = "bfloat16";
  if (options.skip_bad) config.skip_bad = true;
  apply_limits(config, options.limits);
  take(config.eval_every, options.eval_every);
  apply_learning(config.learning, options);
  apply_mode_options(config, options, options.worker_count());
  apply_mesh_options(config, options.mesh);
  check_cluster(options, config);
  check_config(config);
  return config;
}

}  // namespace lockstep::cli
