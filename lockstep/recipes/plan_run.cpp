// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/plan_run.h"

#include <algorithm>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/recipes/random_batch.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/train/choose_cuts.h"
#include "lockstep/train/measure_step.h"
#include "lockstep/train/slice_plan.h"

namespace lockstep::recipes {
namespace {

// A run's net, and how much of it there is without compiling anything.
struct Subject {
  Recipe recipe;
  nn::BlockPtr net;
  optim::OptimizerPtr rule;
  data::Fields batch;
  train::StepGraph step;  // not cut

  explicit Subject(const RunConfig& config)
      : recipe(run_recipe(config, {})),
        net(recipe.net()),
        rule(make_optimizer(config.learning)),
        batch(random_batch(recipe, config.global_batch / config.shards)),
        step((net->initialize(),
              train::trace_step(*net, recipe.loss(), data::infos_of(batch), recipe.roles()))) {}
};

bool has_tables(const Subject& subject) { return !subject.step.tables.empty(); }

// The configuration's own; and where it has one segment, one cut for each number of stages.
std::vector<parallel::MeshChoice> meshes_of(const RunConfig& config, const PlanRunOptions& options,
                                            const Subject& subject) {
  std::vector<parallel::MeshChoice> meshes;
  // Workers share slices of nets that have no tables and whose shards do not meet.
  const bool may_share = !has_tables(subject) && !subject.step.shards_meet;
  // Once for each number of workers that share the slices.
  const auto add = [&](parallel::MeshChoice mesh) {
    mesh.slices = static_cast<int>(config.slices);
    const int most = may_share ? mesh.slices : 1;
    for (mesh.tensor = 1; mesh.tensor <= most; ++mesh.tensor)
      if (options.workers % mesh.tensor == 0 && options.tensor.value_or(mesh.tensor) == mesh.tensor)
        meshes.push_back(mesh);
  };
  const auto cut = [&](std::int64_t segments, bool is_given) {
    return parallel::MeshChoice{static_cast<int>(segments),
                                segments > 1
                                    ? train::choose_cuts(*subject.net, subject.step, segments).cuts
                                    : std::vector<std::string>(),
                                is_given};
  };
  if (!config.cuts.empty())
    add({static_cast<int>(config.segments), names_in(config.cuts)});
  else
    add(cut(config.segments, true));
  if (config.segments > 1 || !options.may_cut || has_tables(subject)) return meshes;
  for (int segments = 2; segments <= options.workers; ++segments) {
    if (options.workers % segments != 0) continue;
    try {
      add(cut(segments, false));
    } catch (const InvalidArgument&) {
      break;  // too many for this net, and so are more
    }
  }
  return meshes;
}

parallel::ClusterModel cluster_of(const PlanRunOptions& options, int threads) {
  parallel::ClusterModel cluster = train::measure_machine();
  cluster.workers = options.workers;
  cluster.hosts = options.hosts;
  if (options.links) cluster.network = *options.links;
  const int on_a_host = (options.workers + options.hosts - 1) / options.hosts;
  cluster.has_spare_cores = threads * on_a_host < usable_threads();
  return cluster;
}

int threads_of(const PlanRunOptions& options) {
  const int on_a_host = (options.workers + options.hosts - 1) / options.hosts;
  return options.threads > 0 ? options.threads : std::max(1, usable_threads() / on_a_host);
}

}  // namespace

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream words(text);
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  return names;
}

std::vector<train::Split> splits_in(const std::string& text) {
  std::vector<train::Split> splits;
  for (const std::string& one : names_in(text)) splits.push_back(train::parse_split(one));
  return splits;
}

train::Mesh mesh_of(const RunConfig& config) {
  return {.shards = config.shards,
          .segments = config.segments,
          .cuts = names_in(config.cuts),
          .slices = config.slices,
          .splits = splits_in(config.slice_layers)};
}

void check_net(const RunConfig& config) {
  train::Mesh mesh = mesh_of(config);
  const Recipe recipe = run_recipe(config, {});
  const bool is_whole = mesh.segments == 1 && mesh.cuts.empty() && mesh.slices == 1;
  const bool is_known = !recipe.from_data && !recipe.is_recommender() &&
                        (config.data.empty() || config.data == "synthetic");
  if (is_whole || !is_known || config.global_batch % config.shards != 0) return;
  const nn::BlockPtr net = recipe.net();
  const train::LossFunction loss = recipe.loss();
  const std::vector<TensorInfo> fields = recipe.fields(config.global_batch / config.shards);
  if (mesh.cuts.empty() && mesh.segments > 1)
    mesh.cuts = train::choose_cuts(*net, loss, fields, recipe.roles(), mesh.segments);
  const train::SlicePlan slices =
      train::plan_slices(*net, loss, fields, recipe.roles(), mesh.slices, mesh.splits);
  train::trace_step(*net, loss, fields, recipe.roles(), mesh.cuts, slices);
}

RunPlan plan_run(const RunConfig& config, const PlanRunOptions& options) {
  const Subject subject(config);
  RunPlan plan;
  plan.request = {.shards = config.shards,
                  .threads = threads_of(options),
                  .memory_limit = options.memory_limit,
                  .meshes = meshes_of(config, options, subject),
                  .floats = train::count_floats(subject.step),
                  .slots = subject.rule->slots(),
                  .pipeline = options.pipeline,
                  .tensor = options.tensor,
                  .shard_state = options.shard_state,
                  .recompute = options.recompute,
                  .algorithm = kvstore::parse_algorithm(config.algorithm),
                  .estimate = options.estimate};
  plan.request.cluster = cluster_of(options, plan.request.threads);
  plan.plan = parallel::make_plan(plan.request, [&](const parallel::MeshChoice& mesh) {
    return train::measure_step(subject.net, subject.recipe.loss(), subject.rule, subject.batch,
                               {.roles = subject.recipe.roles(),
                                .cuts = mesh.cuts,
                                .slices = mesh.slices,
                                .splits = splits_in(config.slice_layers),
                                .tensor = mesh.tensor,
                                .shards = config.shards,
                                .bfloat16 = config.dtype == "bfloat16",
                                .rounds = options.rounds});
  });
  return plan;
}

std::string train_words(const RunPlan& plan, const parallel::Candidate& candidate) {
  const parallel::Placement& placement = candidate.placement;
  std::string words;
  if (!candidate.keeps_bits)
    words += fmt::format(" --segments {}", plan.mesh_of(candidate).segments);
  if (placement.pipeline > 1) words += fmt::format(" --pipeline {}", placement.pipeline);
  if (placement.tensor > 1) words += fmt::format(" --tensor {}", placement.tensor);
  if (placement.shard_state > 0) words += fmt::format(" --shard-state {}", placement.shard_state);
  if (placement.recompute) words += " --recompute";
  return words;
}

}  // namespace lockstep::recipes
