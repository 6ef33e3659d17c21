// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/bench.h"
#include "bench/comm_bench.h"
#include "bench/messages_bench.h"
#include "bench/op_table.h"
#include "bench/ps_bench.h"
#include "bench/scale_bench.h"
#include "bench/step_bench.h"
#include "bench/train_bench.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"

namespace lockstep::cli {
namespace {

// Each once, though an op has several cases.
std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const bench::OpBench& op : bench::op_benches())
    if (std::find(names.begin(), names.end(), op.op) == names.end()) names.push_back(op.op);
  return names;
}

// A benchmark with the options that all have.
template <class O>
CLI::App* add_bench(CLI::App& app, Action& action, const std::shared_ptr<O>& options,
                    const char* name, const char* what, void (*run)(const O&),
                    const char* peers = "PyTorch") {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_flag("--json", options->json, "One JSON object a line");
  command->add_flag("--quick", options->quick, "Little of each: a look, not a measurement");
  if constexpr (requires { options->peer; })
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
void add_step_side(CLI::App& app, Action& action) {
  struct Side {
    std::string model;
    std::string dtype = "float32";
  };
  const auto side = std::make_shared<Side>();
  CLI::App* command = app.add_subcommand("step-side", "One side of bench step")->group("");
  command->add_option("model", side->model)->required();
  command->add_option("--dtype", side->dtype);
  command->callback(
      [&action, side] { action = [side] { return bench::serve_step(side->model, side->dtype); }; });
}

// Our side of bench train.
void add_train_side(CLI::App& app, Action& action) {
  const auto side = std::make_shared<bench::TrainSide>();
  CLI::App* command = app.add_subcommand("train-side", "One side of bench train")->group("");
  command->add_option("model", side->model)->required();
  add_count(*command, "", "--batch", side->batch, "B", "")->required();
  add_count(*command, "", "--shards", side->shards, "S", "");
  add_count(*command, "", "--threads", side->threads, "T", "", 1, kMostThreads);
  command->callback([&action, side] { action = [side] { return bench::serve_train(*side); }; });
}

void add_comm(CLI::App& app, Action& action) {
  const auto options = std::make_shared<bench::CommBenchOptions>();
  CLI::App* command =
      add_bench(app, action, options, "comm",
                "Collectives between processes, beside Gloo's and OpenMPI's where they are built",
                bench::run_comm, "Gloo and OpenMPI");
  add_count(*command, "Options", "--ranks", options->ranks, "N", "How many processes", 1, 64);
  command->add_option("--algorithm", options->algorithm, "Of all_reduce")
      ->check(CLI::IsMember(bench::algorithm_names()));
  add_names(*command, "--collectives", options->names, bench::collective_names());
  CLI::Option* namespaces = command->add_flag(
      "--namespaces", options->namespaces,
      "Half of the processes in each of two network namespaces with a link between (root)");
  command->add_option("--link-rate", options->link_rate, "Of that link, as tc writes it: 1gbit")
      ->needs(namespaces);
}

// Numbers, with commas between.
CLI::Option* add_counts(CLI::App& command, const char* name, std::vector<int>& values,
                        const char* what, int most) {
  return add_count(command, "Options", name, values, "N,N,...", what, 1, most)->delimiter(',');
}

void add_scale(CLI::App& app, Action& action) {
  const auto options = std::make_shared<bench::ScaleOptions>();
  CLI::App* command =
      add_bench(app, action, options, "scale",
                "Training over workers and threads, beside PyTorch DDP where it is installed",
                bench::run_scale);
  add_names(*command, "--recipes", options->recipes, bench::train_case_names());
  const char* what = "Each with each of the other; speed-up is over the first";
  add_counts(*command, "--workers", options->workers, what, 64)->default_str("1,2,4");
  add_counts(*command, "--threads", options->threads, what, 64)->default_str("1,2");
}

// Our side of bench comm.
void add_comm_side(CLI::App& app, Action& action) {
  const auto side = std::make_shared<bench::CommSide>();
  const auto algorithm = std::make_shared<std::string>("automatic");
  CLI::App* command = app.add_subcommand("comm-side", "One side of bench comm")->group("");
  add_count(*command, "", "--ranks", side->ranks, "N", "", 1, 64)->required();
  command->add_option("--algorithm", *algorithm);
  command->add_option("--collectives", side->names);
  command->add_option("--networks", side->networks);
  command->add_flag("--quick", side->quick);
  command->callback([&action, side, algorithm] {
    action = [side, algorithm] {
      side->algorithm = bench::find_algorithm(*algorithm);
      return bench::serve_comm(*side);
    };
  });
}

void add_messages(CLI::App& app, Action& action) {
  const auto options = std::make_shared<bench::MessagesBenchOptions>();
  CLI::App* bench = add_bench(app, action, options, "messages",
                              "Requests and replies between a server and a client of this host, "
                              "through shared memory and over TCP",
                              bench::run_messages, "memcpy");
  add_names(*bench, "--paths", options->paths, bench::message_paths());
  add_counts(*bench, "--kilobytes", options->kilobytes,
             "Of a push and a pull; 1 to 32768 by default", bench::kLongestPush >> 10);
  const auto side = std::make_shared<bench::MessagesSide>();
  CLI::App* command = app.add_subcommand("messages-side", "The server of bench messages");
  command->group("")->add_option("--shared-memory", side->shared_memory);
  command->callback([&action, side] { action = [side] { return bench::serve_messages(*side); }; });
}

void add_ps(CLI::App& app, Action& action) {
  const auto options = std::make_shared<bench::PsBenchOptions>();
  CLI::App* command = add_bench(app, action, options, "ps",
                                "Parameter servers: push and pull by size, keys and servers, rows "
                                "of a table, and training with every kvstore",
                                bench::run_ps);
  add_count(*command, "Options", "--workers", options->workers, "N", "That push and pull", 1, 64);
  add_counts(*command, "--servers", options->servers, "Jobs of so many servers", 64)
      ->default_str("1,2");
  add_counts(*command, "--keys", options->keys, "Over which the bytes are dealt", 256)
      ->default_str("1,16");
  add_counts(*command, "--kilobytes", options->kilobytes,
             "Of all keys together; 1 to 32768 by default", bench::kMostPushedKilobytes);
  command
      ->add_option("--train", options->train,
                   "Train a recipe with every kvstore, side by side, instead (mnist-lenet)")
      ->type_name("[RECIPE]")
      ->expected(0, 1)
      ->default_str("mnist-lenet")
      ->check(CLI::IsMember(bench::train_case_names()));
}

// A member of bench ps's job.
void add_ps_side(CLI::App& app, Action& action) {
  const auto side = std::make_shared<bench::PsSide>();
  CLI::App* command = app.add_subcommand("ps-side", "A member of bench ps")->group("");
  add_counts(*command, "--keys", side->keys, "", 256)->required();
  add_counts(*command, "--kilobytes", side->kilobytes, "", bench::kMostPushedKilobytes)->required();
  command->add_flag("--quick", side->quick);
  command->add_flag("--values-only", side->values_only);
  command->callback([&action, side] { action = [side] { return bench::serve_ps(*side); }; });
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "Measure, beside PyTorch where it is installed");
  command->group(kToolGroup)->require_subcommand(1);
  const auto options = std::make_shared<bench::BenchOptions>();
  CLI::App* step = add_bench(*command, action, options, "step",
                             "Training steps of the recipes' models", bench::run_step);
  add_names(*step, "--models", options->names, bench::recipe_names());
  step->add_flag("--bf16", options->bf16, "Also with bfloat16 compute");
  CLI::App* train =
      add_bench(*command, action, options, "train",
                "Training on one thread and on two, and in eight shards", bench::run_train);
  add_names(*train, "--models", options->names, bench::train_case_names());
  CLI::App* ops =
      add_bench(*command, action, options, "ops", "Single ops, eager and compiled", bench::run_ops);
  add_names(*ops, "--ops", options->names, op_names());
  add_bench(*command, action, options, "eager", "The cost of a call: add of 16 floats",
            bench::run_eager);
  add_bench(*command, action, options, "deep",
            "Nets of up to 3,200 layers: calls, and building and storing a step", bench::run_deep);
  add_bench(*command, action, options, "embedding",
            "Steps that look up 2,000 rows of large tables: whole gradients and sparse ones",
            bench::run_embedding);
  add_scale(*command, action);
  add_comm(*command, action);
  add_messages(*command, action);
  add_ps(*command, action);
  add_comm_side(*command, action);
  add_ps_side(*command, action);
  add_step_side(*command, action);
  add_train_side(*command, action);
}

}  // namespace lockstep::cli
