// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/data_limits.h"
#include "lockstep/cli/launch_options.h"
#include "lockstep/cli/mesh_options.h"
#include "lockstep/cli/stop_point.h"
#include "lockstep/cluster/membership/place.h"
#include "lockstep/recipes/run_config.h"

namespace lockstep::cli {

// How the shards of a step are dealt to the workers; it changes no bit.
struct Deal {
  enum class Kind { even, speed, fixed };
  Kind kind = Kind::even;
  std::vector<std::int64_t> shares = {};  // of each worker, where they are fixed

  // "even", "speed", "fixed:3,3,2". Throws WrongUsage.
  static Deal parse(const std::string& text);
  std::string str() const;  // what parse() takes
  // The workers with their shares, where these are fixed and as many.
  Membership of(const Membership& workers) const;
};
// Throws WrongUsage where the shares do not fit the job.
void check_deal(const Deal& deal, const recipes::RunConfig& config, std::int64_t workers);

// The command line of `lockstep train`. What is not given is the recipe's, or the resumed run's.
struct TrainOptions {
  std::string recipe;  // or a library model
  std::string model;   // as --model has it; take_model makes it the recipe
  std::optional<std::string> data, split;
  std::optional<std::int64_t> epochs, steps, global_batch, shards, eval_every, image_size;
  std::optional<std::int64_t> width, blocks;
  std::optional<std::uint64_t> seed;
  int threads = 0;  // 0: as many as cores
  bool bf16 = false;
  bool skip_bad = false;
  DataLimits limits;
  bool allow_different_bits = false;
  double wait = 60;   // seconds, for another worker
  double grace = 10;  // seconds, of workers that are asked to stop
  // What a job does when workers are lost.
  bool fail_fast = false;
  bool begins_again = false;  // from the newest checkpoint: nobody has what a lost worker had
  std::optional<std::int64_t> min_workers, max_workers;
  std::int64_t max_restarts = 20;
  double heartbeat = 3;      // seconds
  std::string store;         // of the membership; empty: in the launcher
  double stall_timeout = 0;  // seconds; 0: nobody is put out for holding up the others
  Deal deal = {};
  MeshOptions mesh = {};
  std::optional<std::string> plan;  // "auto", "fastest": who has what is the planner's choice
  std::string memory_limit;         // of a worker, for the plan
  bool is_planned = false;          // a worker of a job whose launcher has chosen
  std::vector<std::string> planned_words = {};  // what it says to its workers

  std::optional<std::string> optimizer, schedule;
  std::optional<double> learning_rate, momentum, weight_decay, clip_norm, warm_up;

  std::string out;
  bool resume = false;
  bool resume_auto = false;  // where there is a run to go on with; else a new one
  std::int64_t checkpoint_every = 0;
  std::int64_t keep = 3;
  bool report = true;
  bool json = false;
  bool quiet = false;

  std::optional<std::int64_t> workers, servers, replicas, staleness;
  std::optional<std::string> stale_gradients;
  std::optional<std::int64_t> job_servers;           // of a job that somebody launched
  int rank = 0;                                      // of a worker that was launched
  std::optional<cluster::Place::Launcher> launcher;  // none: nobody launched this process
  std::string launched_by;  // "mpirun -n 4"; empty: by --workers, or not at all
  int fair_threads = 1;     // a worker's share of its host
  ConnectOptions connect;
  CareOptions care;
  bool is_guest = false;           // comes to a job by itself, and asks what it trains
  bool launcher_connects = false;  // the transport is what the launcher says
  std::optional<std::string> kvstore, algorithm, compression;
  std::int64_t shard_state = 0;  // decides no bit
  StopPoint stop_point;          // for tests, both
  FailPoint fail_point;

  std::chrono::milliseconds patience() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(wait * 1000));
  }
  std::int64_t worker_count() const { return workers.value_or(1); }
};

// Among the words of a worker whose launcher has made the plan.
inline constexpr const char* kPlanned = "--planned";

void add_train_options(CLI::App& command, TrainOptions& options);
// Of a worker that joins a job by itself.
void add_guest_options(CLI::App& command, TrainOptions& options);

// `--resume auto` is one of two options to CLI11, whose flags take no word behind them.
std::vector<std::string> join_resume_auto(std::vector<std::string> words);

// Whether the folder has a run to go on with.
bool has_run(const std::string& folder);

// The one that is given of RECIPE and --model. A run that goes on may have neither: its folder says
// what it trains. Throws WrongUsage.
void take_model(TrainOptions& options);

// The workers and stages that --placement says, and a pipeline's order where --schedule names one.
// Throw WrongUsage.
void take_placement(TrainOptions& options);
void take_pipeline_schedule(TrainOptions& options);

// `config` with what the command line says. Throws WrongUsage when the result cannot be meant.
recipes::RunConfig apply_options(recipes::RunConfig config, const TrainOptions& options);

}  // namespace lockstep::cli
