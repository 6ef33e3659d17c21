// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "lockstep/cli/bench.h"
#include "lockstep/cli/bench_comm.h"
#include "lockstep/cli/bench_scale.h"
#include "lockstep/cli/bench_step.h"
#include "lockstep/cli/bench_train.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/op_table.h"
#include "lockstep/cli/options.h"

namespace lockstep::cli {
namespace {

// Each once, though an op has several cases.
std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpBench& bench : op_benches())
    if (std::find(names.begin(), names.end(), bench.op) == names.end()) names.push_back(bench.op);
  return names;
}

// A benchmark with the options that all have.
template <class O>
CLI::App* add_bench(CLI::App& bench, Action& action, const std::shared_ptr<O>& options,
                    const char* name, const char* what, void (*run)(const O&),
                    const char* peers = "PyTorch") {
  CLI::App* command = bench.add_subcommand(name, what);
  command->add_flag("--json", options->json, "One JSON object a line");
  command->add_flag("--quick", options->quick, "Little of each: a look, not a measurement");
  command->add_flag_callback(
      "--no-peer", [options] { options->peer = false; }, fmt::format("Leave {} out", peers));
  command->callback([&action, options, run] {
    action = [options, run] {
      run(*options);
      return 0;
    };
  });
  return command;
}

void add_names(CLI::App& command, const char* name, std::vector<std::string>& names,
               const std::vector<std::string>& known) {
  command.add_option(name, names, "With commas between; all by default")
      ->type_name("NAMES")
      ->delimiter(',')
      ->check(CLI::IsMember(known));
}

// Our side of bench step, which starts it as a process of its own.
void add_worker(CLI::App& bench, Action& action) {
  struct Side {
    std::string model;
    std::string dtype = "float32";
  };
  const auto side = std::make_shared<Side>();
  CLI::App* worker = bench.add_subcommand("worker", "One side of bench step")->group("");
  worker->add_option("model", side->model)->required();
  worker->add_option("--dtype", side->dtype);
  worker->callback(
      [&action, side] { action = [side] { return serve_step(side->model, side->dtype); }; });
}

// Our side of bench train.
void add_train_worker(CLI::App& bench, Action& action) {
  const auto side = std::make_shared<TrainSide>();
  CLI::App* worker = bench.add_subcommand("train-worker", "One side of bench train")->group("");
  worker->add_option("model", side->model)->required();
  add_count(*worker, "", "--batch", side->batch, "B", "")->required();
  add_count(*worker, "", "--shards", side->shards, "S", "");
  add_count(*worker, "", "--threads", side->threads, "T", "", 1, kMostThreads);
  worker->callback([&action, side] { action = [side] { return serve_train(*side); }; });
}

void add_comm(CLI::App& bench, Action& action) {
  const auto options = std::make_shared<CommBenchOptions>();
  CLI::App* command =
      add_bench(bench, action, options, "comm",
                "Collectives between processes, beside Gloo's and OpenMPI's where they are built",
                bench_comm, "Gloo and OpenMPI");
  add_count(*command, "Options", "--ranks", options->ranks, "N", "How many processes", 1, 64);
  command->add_option("--algorithm", options->algorithm, "Of all_reduce")
      ->check(CLI::IsMember(algorithm_names()));
  add_names(*command, "--collectives", options->names, collective_names());
  CLI::Option* namespaces = command->add_flag(
      "--namespaces", options->namespaces,
      "Half of the processes in each of two network namespaces with a link between (root)");
  command->add_option("--link-rate", options->link_rate, "Of that link, as tc writes it: 1gbit")
      ->needs(namespaces);
}

void add_scale(CLI::App& bench, Action& action) {
  const auto options = std::make_shared<ScaleOptions>();
  CLI::App* command = add_bench(
      bench, action, options, "scale",
      "Training over workers and threads, beside PyTorch DDP where it is installed", bench_scale);
  add_names(*command, "--recipes", options->recipes, train_case_names());
  const auto add_counts = [&](const char* name, std::vector<int>& values, const char* usual) {
    add_count(*command, "Options", name, values, "N,N,...",
              "Each with each of the other; speed-up is over the first", 1, 64)
        ->delimiter(',')
        ->default_str(usual);
  };
  add_counts("--workers", options->workers, "1,2,4");
  add_counts("--threads", options->threads, "1,2");
}

// Our side of bench comm.
void add_comm_group(CLI::App& bench, Action& action) {
  const auto side = std::make_shared<CommSide>();
  const auto algorithm = std::make_shared<std::string>("automatic");
  CLI::App* group = bench.add_subcommand("comm-group", "One side of bench comm")->group("");
  add_count(*group, "", "--ranks", side->ranks, "N", "", 1, 64)->required();
  group->add_option("--algorithm", *algorithm);
  group->add_option("--collectives", side->names);
  group->add_option("--networks", side->networks);
  group->add_flag("--quick", side->quick);
  group->callback([&action, side, algorithm] {
    action = [side, algorithm] {
      side->algorithm = find_algorithm(*algorithm);
      return serve_comm(*side);
    };
  });
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, beside PyTorch where it is installed");
  bench->group(kToolGroup)->require_subcommand(1);
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* step = add_bench(*bench, action, options, "step",
                             "Training steps of the recipes' models", bench_step);
  add_names(*step, "--models", options->names, recipe_names());
  step->add_flag("--bf16", options->bf16, "Also with bfloat16 compute");
  CLI::App* train =
      add_bench(*bench, action, options, "train",
                "Training on one thread and on two, and in eight shards", bench_train);
  add_names(*train, "--models", options->names, train_case_names());
  CLI::App* ops =
      add_bench(*bench, action, options, "ops", "Single ops, eager and compiled", bench_ops);
  add_names(*ops, "--ops", options->names, op_names());
  add_bench(*bench, action, options, "eager", "The cost of a call: add of 16 floats", bench_eager);
  add_scale(*bench, action);
  add_comm(*bench, action);
  add_comm_group(*bench, action);
  add_worker(*bench, action);
  add_train_worker(*bench, action);
}

}  // namespace lockstep::cli
