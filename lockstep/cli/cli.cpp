// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cli.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

namespace lockstep::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;

// CLI11 throws for --help and --version too; those succeed.
int report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  fmt::print(stderr, "lockstep: {} (lockstep --help shows the usage)\n", error.what());
  return kWrongUsage;
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app{"Lockstep: distributed deep learning, the same bits on any number of workers",
               "lockstep"};
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return kFailure;
  }
  return 0;
}

}  // namespace lockstep::cli
