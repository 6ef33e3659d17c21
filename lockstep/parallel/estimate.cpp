// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lockstep/parallel/simulator.h"
#include "lockstep/tensor/philox.h"

namespace lockstep::parallel {
namespace {

// Box and Muller's method: the two uniform numbers of one draw.
double normal_number(const RandomKey& key, std::uint64_t place) {
  const double u = 1.0 - unit_float(random_bits(key, 2 * place));
  const double v = unit_float(random_bits(key, 2 * place + 1));
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

// A worker's time in a step is log-normal, with the mean that was measured.
std::vector<double> draw_slowness(const EstimateOptions& options, int draw, std::size_t workers) {
  std::vector<double> slowness(workers);
  const RandomKey key{options.seed, static_cast<std::uint32_t>(draw)};
  for (std::size_t w = 0; w < workers; ++w)
    slowness[w] =
        std::exp(options.jitter * normal_number(key, w) - options.jitter * options.jitter / 2.0);
  return slowness;
}

double at_rank(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

// What links cost is what a step takes less without them; what waiting costs is what it then takes
// besides computing.
StepEstimate estimate_step(const StepCosts& costs, const Placement& placement, std::int64_t shards,
                           const ClusterModel& cluster, const EstimateOptions& options) {
  const StepTasks step = write_step(costs, placement, shards, cluster);
  const SimulatedStep even = simulate_step(step, cluster);
  const SimulatedStep free = simulate_step(step, cluster.without_network());
  StepEstimate estimate;
  estimate.computing = mean(free.busy);
  estimate.bubble = std::max(0.0, free.seconds - estimate.computing);
  estimate.communication = std::max(0.0, even.seconds - free.seconds);
  estimate.seconds = estimate.p10 = estimate.p90 = even.seconds;
  if (options.jitter <= 0.0) return estimate;
  std::vector<double> drawn;
  for (int draw = 0; draw < options.draws; ++draw)
    drawn.push_back(simulate_step(step, cluster,
                                  {.slowness = draw_slowness(options, draw, step.workers.size())})
                        .seconds);
  std::sort(drawn.begin(), drawn.end());
  estimate.seconds = at_rank(drawn, 0.5);
  estimate.p10 = at_rank(drawn, 0.1);
  estimate.p90 = at_rank(drawn, 0.9);
  estimate.stragglers =
      estimate.seconds - estimate.computing - estimate.bubble - estimate.communication;
  return estimate;
}

std::string StepEstimate::bound() const {
  const double most = std::max({bubble, communication, stragglers});
  if (most < 0.02 * seconds) return "computing";
  if (most == communication) return "communication";
  return most == bubble ? "bubble" : "stragglers";
}

}  // namespace lockstep::parallel
