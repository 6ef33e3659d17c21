// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/step_tasks.h"

namespace lockstep::parallel {

// Something that a worker's computing lane did.
struct Span {
  Task::Phase phase = Task::Phase::forward;
  std::int64_t shard = -1;
  double begin = 0.0, end = 0.0;
};

struct SimulatedStep {
  double seconds = 0.0;
  std::vector<double> busy = {};              // each worker's computing
  std::vector<std::vector<Span>> spans = {};  // by worker, where they are asked for
};

struct SimulationOptions {
  std::vector<double> slowness = {};  // how many times as long each worker computes; none: as told
  bool keeps_spans = false;
};

// Runs a step's tasks: a lane's one after the other, a transfer when its hosts' links are free, a
// collective when all are there. Throws InvalidArgument where somebody would wait for ever.
SimulatedStep simulate_step(const StepTasks& step, const ClusterModel& cluster,
                            const SimulationOptions& options = {});

// A step's time and where it goes. The parts add up to the median.
struct StepEstimate {
  double seconds = 0.0;        // the median where machines are not always as fast
  double computing = 0.0;      // mean over the workers
  double bubble = 0.0;         // waiting for other stages and for those with more shards
  double communication = 0.0;  // that is not hidden behind computing
  double stragglers = 0.0;     // what the slowest of each step adds
  double p10 = 0.0, p90 = 0.0;

  double efficiency() const { return seconds > 0.0 ? computing / seconds : 1.0; }
  // "communication": what takes the most besides computing; "computing" where that is all.
  std::string bound() const;
};

struct EstimateOptions {
  double jitter = 0.0;  // standard deviation of the logarithm of a worker's time in a step
  int draws = 50;
  std::uint64_t seed = 0;
};

StepEstimate estimate_step(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                           const ClusterModel& cluster, const EstimateOptions& options = {});

// What each worker does when, the first `most` of them: a picture.
std::string step_svg(const SimulatedStep& step, std::size_t most = 32);
// A page with it, and where the time of the step goes.
std::string step_page(const std::string& title, const StepEstimate& estimate,
                      const SimulatedStep& step);

}  // namespace lockstep::parallel
