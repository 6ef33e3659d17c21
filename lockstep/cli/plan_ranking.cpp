// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/plan_ranking.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "lockstep/observe/text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using parallel::Candidate;

std::string bytes(std::size_t count) { return observe::format_bytes(static_cast<double>(count)); }

std::string bits_of(const recipes::RunPlan& plan, const Candidate& candidate) {
  return candidate.keeps_bits ? "the same"
                              : fmt::format("of {} segments", plan.mesh_of(candidate).segments);
}

std::string row(const recipes::RunPlan& plan, const Candidate& candidate, bool is_best) {
  const parallel::StepEstimate& step = candidate.step;
  const std::string times =
      candidate.is_measured
          ? fmt::format("{:>9.1f} {:>9.1f} {:>7.1f} {:>7.1f}", 1e3 * step.seconds,
                        1e3 * step.computing, 1e3 * step.bubble, 1e3 * step.communication)
          : fmt::format("{:>9} {:>9} {:>7} {:>7}", "-", "-", "-", "-");
  return fmt::format("{:<42} {:<14} {} {:>9}  {}\n", to_string(candidate.placement),
                     bits_of(plan, candidate), times,
                     (candidate.is_measured ? "" : ">") + bytes(candidate.bytes),
                     is_best ? "the best" : candidate.why);
}

Json step_json(const parallel::StepEstimate& step) {
  return {{"seconds", step.seconds},
          {"computing_s", step.computing},
          {"bubble_s", step.bubble},
          {"communication_s", step.communication},
          {"stragglers_s", step.stragglers},
          {"p10_s", step.p10},
          {"p90_s", step.p90}};
}

Json candidate_json(const recipes::RunPlan& plan, const Candidate& candidate) {
  const parallel::Placement& placement = candidate.placement;
  Json json{{"data", placement.data},
            {"pipeline", placement.pipeline},
            {"tensor", placement.tensor},
            {"threads", placement.threads},
            {"shard_state", placement.shard_state},
            {"recompute", placement.recompute},
            {"segments", plan.mesh_of(candidate).segments},
            {"cuts", plan.mesh_of(candidate).cuts},
            {"changes_bits", !candidate.keeps_bits},
            {"fits", candidate.fits()},
            {"bytes", candidate.bytes},
            {"why", candidate.why},
            {"words", recipes::train_words(plan, candidate)}};
  if (!candidate.is_measured) return json;
  json["step"] = step_json(candidate.step);
  json["memory"] = {{"weights", candidate.memory.weights},
                    {"state", candidate.memory.state},
                    {"gradients", candidate.memory.gradients},
                    {"activations", candidate.memory.activations},
                    {"fixed", candidate.memory.fixed}};
  return json;
}

}  // namespace

std::string candidate_text(const Candidate& candidate) {
  return fmt::format("{}, a step of {:.1f} ms, {} a worker", to_string(candidate.placement),
                     1e3 * candidate.step.seconds, bytes(candidate.bytes));
}

std::string ranking_text(const recipes::RunPlan& plan, const std::string& command) {
  std::string text =
      fmt::format("{:<42} {:<14} {:>9} {:>9} {:>7} {:>7} {:>9}  {}\n", "placement", "bits",
                  "step ms", "computing", "bubble", "exposed", "memory", "why not");
  const Candidate* best = plan.plan.best(false);
  for (const Candidate& candidate : plan.plan.candidates)
    text += row(plan, candidate, &candidate == best);
  if (best == nullptr) return text;
  const Candidate* same = plan.plan.best(true);
  text += fmt::format("\n{}{}\n", command, recipes::train_words(plan, *best));
  if (same != nullptr && same != best)
    text += fmt::format("the best with the bits of one worker: {}{}\n", command,
                        recipes::train_words(plan, *same));
  return text;
}

std::string ranking_json(const recipes::RunPlan& plan, const std::string& command) {
  Json json{{"workers", plan.request.cluster.workers},
            {"hosts", plan.request.cluster.hosts},
            {"shards", plan.request.shards},
            {"memory_limit", plan.request.memory_limit}};
  json["plans"] = Json::array();
  for (const Candidate& candidate : plan.plan.candidates)
    json["plans"].push_back(candidate_json(plan, candidate));
  const auto command_of = [&](const Candidate* one) {
    return one == nullptr ? Json() : Json(command + recipes::train_words(plan, *one));
  };
  json["best"] = command_of(plan.plan.best(false));
  json["best_of_same_bits"] = command_of(plan.plan.best(true));
  return json.dump();
}

}  // namespace lockstep::cli
