// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/planner.h"

#include <algorithm>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/observe/text.h"

namespace lockstep::parallel {
namespace {

std::string text_of(std::size_t bytes) { return observe::format_bytes(static_cast<double>(bytes)); }

// What replicas can have together. Workers have all state of their stages and slices.
std::vector<int> state_stages(const Placement& placement, const MeshChoice& mesh) {
  if (placement.pipeline > 1 || mesh.slices > 1 || placement.data == 1) return {0};
  return {0, 1, 2};
}

std::vector<bool> recomputations(const Placement& placement) {
  if (placement.pipeline == 1) return {false};
  return {false, true};
}

template <class T>
bool is_asked_for(const std::optional<T>& asked, const T& value) {
  return !asked || *asked == value;
}

// Stages of a mesh that was chosen for the plan have a segment each.
std::vector<Placement> placements_of(const PlanRequest& request, const MeshChoice& mesh) {
  std::vector<Placement> all;
  const int workers = request.cluster.workers;
  if (!is_asked_for(request.tensor, mesh.tensor)) return all;
  for (int pipeline = 1; pipeline <= mesh.segments; ++pipeline) {
    const int parts = pipeline * mesh.tensor;
    if (workers % parts != 0 || workers / parts > request.shards) continue;
    if (!mesh.is_given && pipeline != mesh.segments) continue;
    if (!is_asked_for(request.pipeline, pipeline)) continue;
    Placement placement{.data = workers / parts,
                        .pipeline = pipeline,
                        .tensor = mesh.tensor,
                        .threads = pipeline > 1 ? 1 : request.threads,
                        .algorithm = request.algorithm};
    for (const int stage : state_stages(placement, mesh))
      for (const bool recompute : recomputations(placement)) {
        placement.shard_state = stage;
        placement.recompute = recompute;
        if (is_asked_for(request.shard_state, stage) && is_asked_for(request.recompute, recompute))
          all.push_back(placement);
      }
  }
  return all;
}

std::size_t over(std::size_t bytes, std::size_t limit) {
  return limit > 0 && bytes > limit ? bytes - limit : 0;
}

// The worker that needs most: stages differ, and so do replicas with other numbers of shards.
StepMemory most_memory(const StepCosts& costs, const Placement& placement,
                       const PlanRequest& request) {
  const std::vector<int> hosts = request.cluster.host_of_each();
  StepMemory most;
  for (const int replica : {0, placement.data - 1})
    for (int stage = 0; stage < placement.pipeline; ++stage) {
      const StepMemory own =
          memory_of(costs, placement, request.shards, hosts, placement.rank_of(replica, stage, 0));
      if (own.bytes() > most.bytes()) most = own;
    }
  return most;
}

Candidate examine(const PlanRequest& request, std::size_t mesh, const Placement& placement,
                  const StepCosts& costs) {
  Candidate candidate{.placement = placement, .mesh = mesh};
  candidate.memory = most_memory(costs, placement, request);
  candidate.bytes = candidate.memory.bytes();
  candidate.over = over(candidate.bytes, request.memory_limit);
  candidate.step =
      estimate_step(costs, placement, request.shards, request.cluster, request.estimate);
  return candidate;
}

Candidate refuse(const PlanRequest& request, std::size_t mesh, const Placement& placement) {
  Candidate candidate{.placement = placement, .mesh = mesh, .is_measured = false};
  candidate.bytes = least_bytes(request.floats, request.slots, placement);
  candidate.over = over(candidate.bytes, request.memory_limit);
  return candidate;
}

// What fits first, and the faster.
bool is_better(const Candidate& a, const Candidate& b) {
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? a.step.seconds < b.step.seconds : a.over < b.over;
}

// Measuring twice differs by more: where no more is gained, the simpler one is better. Workers that
// share nothing survive each other.
constexpr double kNothingGained = 1.02;

void prefer_simple(std::vector<Candidate>& sorted) {
  const auto complexity = [](const Candidate& c) {
    return std::tuple(c.placement.pipeline * c.placement.tensor, c.placement.shard_state,
                      c.placement.recompute);
  };
  const double enough = kNothingGained * sorted[0].step.seconds;
  const auto end = std::find_if(sorted.begin(), sorted.end(), [&](const Candidate& c) {
    return !c.fits() || c.step.seconds > enough;
  });
  if (end == sorted.begin()) return;
  const auto simplest = std::min_element(
      sorted.begin(), end, [&](auto& a, auto& b) { return complexity(a) < complexity(b); });
  std::rotate(sorted.begin(), simplest, simplest + 1);
}

std::string largest_part(const StepMemory& memory) {
  const std::pair<std::size_t, const char*> parts[] = {{memory.activations, "activations"},
                                                       {memory.state, "the rule's state"},
                                                       {memory.gradients, "gradients"},
                                                       {memory.weights, "weights"},
                                                       {memory.fixed, "other layouts of weights"}};
  return std::max_element(std::begin(parts), std::end(parts))->second;
}

std::string why_not(const Candidate& candidate, const Candidate& best) {
  if (!candidate.is_measured)
    return fmt::format("at least {} over the limit: weights and state", text_of(candidate.over));
  if (!candidate.fits())
    return fmt::format("{} over the limit, most of it {}", text_of(candidate.over),
                       largest_part(candidate.memory));
  if (!best.fits()) return {};
  const StepEstimate &own = candidate.step, &its = best.step;
  const double slower = own.seconds - its.seconds;
  if (own.seconds <= kNothingGained * its.seconds) return "as fast, and not as simple";
  const std::pair<double, const char*> parts[] = {
      {own.computing - its.computing, "computing"},
      {own.bubble - its.bubble, "waiting for other stages"},
      {own.communication - its.communication, "communication"},
      {own.stragglers - its.stragglers, "waiting for the slowest"}};
  return fmt::format("{:.1f}% slower: {}", 100.0 * slower / its.seconds,
                     std::max_element(std::begin(parts), std::end(parts))->second);
}

std::string no_placement(const PlanRequest& request) {
  const MeshChoice mesh = request.meshes.empty() ? MeshChoice() : request.meshes.back();
  std::string text = fmt::format("plan: {} workers with {} shards and {} segments",
                                 request.cluster.workers, request.shards, mesh.segments);
  if (mesh.slices > 1) text += fmt::format(" in {} slices", mesh.slices);
  if (request.tensor) text += fmt::format(", {} to a stage,", *request.tensor);
  if (request.pipeline) text += fmt::format(", {} stages,", *request.pipeline);
  if (request.shard_state)
    text += fmt::format(", stage {} of state sharding,", *request.shard_state);
  return text + " have no placement";
}

}  // namespace

Plan make_plan(const PlanRequest& request, const MeasureMesh& measure) {
  Plan plan;
  plan.costs.resize(request.meshes.size());
  for (std::size_t m = 0; m < request.meshes.size(); ++m)
    for (const Placement& placement : placements_of(request, request.meshes[m])) {
      Candidate candidate = refuse(request, m, placement);
      if (candidate.fits()) {
        if (plan.costs[m].segments.empty()) plan.costs[m] = measure(request.meshes[m]);
        candidate = examine(request, m, placement, plan.costs[m]);
      }
      candidate.keeps_bits = request.meshes[m].is_given;
      plan.candidates.push_back(std::move(candidate));
    }
  if (plan.candidates.empty()) throw InvalidArgument("{}", no_placement(request));
  std::stable_sort(plan.candidates.begin(), plan.candidates.end(), is_better);
  prefer_simple(plan.candidates);
  for (std::size_t i = 1; i < plan.candidates.size(); ++i)
    plan.candidates[i].why = why_not(plan.candidates[i], plan.candidates[0]);
  if (!plan.candidates[0].fits())
    plan.candidates[0].why = why_not(plan.candidates[0], plan.candidates[0]);
  return plan;
}

const Candidate* Plan::best(bool keeps_bits) const {
  for (const Candidate& candidate : candidates)
    if (candidate.fits() && (!keeps_bits || candidate.keeps_bits)) return &candidate;
  return nullptr;
}

std::string refusal_of(const Plan& plan, const PlanRequest& request) {
  const Candidate& closest = plan.candidates[0];
  return fmt::format("no plan of {} fits in {}: the closest, {}, needs {}{} a worker, {} too much",
                     observe::format_things(request.cluster.workers, "worker"),
                     text_of(request.memory_limit), to_string(closest.placement),
                     closest.is_measured ? "" : "at least ", text_of(closest.bytes),
                     text_of(closest.over));
}

}  // namespace lockstep::parallel
