// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/cli/job_control.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cli/train_workers.h"
#include "lockstep/observe/progress.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/recipes/run_mode.h"
#include "lockstep/train/survival.h"

namespace lockstep::cli {

// Everything of a run that the command line and the run's folder decide.
struct Run {
  const TrainOptions& options;
  recipes::RunConfig config;
  recipes::Recipe recipe;
  int threads;  // as asked for
  recipes::RecipeData data;
  std::optional<observe::RunFolder> folder;  // the first worker's
  std::optional<recipes::RunMode> mode;
  std::string path = {};                           // of the folder, on every worker
  cluster::Job* job = nullptr;                     // that survives losses
  std::string data_sha256 = {};                    // of several workers
  std::unique_ptr<train::Survival> survival = {};  // of a job that goes on when workers are lost
  std::optional<JobControl> control = {};          // of such a job
};

// Of several workers, the first shows, writes and reports.
bool is_first(const TrainOptions& options);
void say(const TrainOptions& options, const std::string& line);
// More threads than a worker has shards have nothing to do.
int used_threads(const Run& run);
optim::Schedule schedule_of(const Run& run);

void check_resume(const TrainOptions& options);
// What is wrong is told once, before there are workers.
recipes::RunConfig checked_config(const TrainOptions& options, const recipes::RunConfig& asked);

// Starts a run, goes on with one, or joins one that is under way.
Run open_or_join(TrainOptions& options, const recipes::RunConfig& config, Workers& workers);
// Of a job that goes on when workers are lost.
void survive(Run& run, const Workers& workers);
void let_control(const Run& run);
// A worker that becomes the first one has the folder from then on; where it does not see it, one of
// its own. The one before it may still be there for a moment.
const observe::RunFolder& take_folder(Run& run);

}  // namespace lockstep::cli
