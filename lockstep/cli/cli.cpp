// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cli.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>

#include "lockstep/cli/bench.h"
#include "lockstep/cli/bench_step.h"
#include "lockstep/cli/op_table.h"

namespace lockstep::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;

// What the command line asks for; filled while it is parsed, run afterwards.
struct Request {
  BenchOptions bench;
  std::string model;
  std::string dtype = "float32";
  std::function<int()> run;
};

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpBench& bench : op_benches()) names.push_back(bench.op);
  return names;
}

CLI::App* add_bench(CLI::App& bench, Request& request, const char* name, const char* what,
                    void (*run)(const BenchOptions&)) {
  CLI::App* command = bench.add_subcommand(name, what);
  command->add_flag("--json", request.bench.json, "One JSON object a line");
  command->add_flag("--quick", request.bench.quick, "Short windows: a look, not a measurement");
  command->add_flag("!--no-peer", request.bench.peer, "Leave PyTorch out");
  command->callback([&request, run] {
    request.run = [&request, run] {
      run(request.bench);
      return 0;
    };
  });
  return command;
}

void add_worker(CLI::App& bench, Request& request) {
  CLI::App* worker = bench.add_subcommand("worker", "One side of bench step")->group("");
  worker->add_option("model", request.model)->required();
  worker->add_option("--dtype", request.dtype);
  worker->callback([&request] {
    request.run = [&request] { return serve_step(request.model, request.dtype); };
  });
}

void add_bench_commands(CLI::App& app, Request& request) {
  CLI::App* bench = app.add_subcommand("bench", "Measure, beside PyTorch where it is installed");
  bench->require_subcommand(1);
  CLI::App* step =
      add_bench(*bench, request, "step", "Training steps of the recipes' models", bench_step);
  step->add_option("--models", request.bench.names, "Which models, with commas between")
      ->delimiter(',')
      ->check(CLI::IsMember(recipe_names()));
  step->add_flag("--bf16", request.bench.bf16, "Also with bfloat16 compute");
  CLI::App* ops = add_bench(*bench, request, "ops", "Single ops, eager and compiled", bench_ops);
  ops->add_option("--ops", request.bench.names, "Which ops, with commas between")
      ->delimiter(',')
      ->check(CLI::IsMember(op_names()));
  add_bench(*bench, request, "eager", "The cost of a call: add of 16 floats", bench_eager);
  add_worker(*bench, request);
}

// CLI11 throws for --help and --version too; those succeed.
int report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const std::vector<std::string> unknown = app.remaining(true);
  const std::string what = unknown.empty() ? std::string(error.what())
                                           : fmt::format("unknown argument '{}'", unknown.front());
  fmt::print(stderr, "lockstep: {} (lockstep --help shows the usage)\n", what);
  return kWrongUsage;
}

}  // namespace

int run(int argc, const char* const* argv) {
  Request request;
  CLI::App app{"Lockstep: distributed deep learning, the same bits on any number of workers",
               "lockstep"};
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  add_bench_commands(app, request);
  try {
    app.parse(argc, argv);
    return request.run();
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return kFailure;
  }
}

}  // namespace lockstep::cli
