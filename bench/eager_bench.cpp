// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bench.h"
#include "bench/responder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/process.h"

namespace lockstep::bench {
namespace {

// One run of bench/eager_add_bench.cpp or its peer: nanoseconds of a call, the median of its
// windows.
double run_once(const std::filesystem::path& program) {
  Child child({program.string()});
  std::vector<double> windows;
  while (const auto line = child.read_line(std::chrono::minutes(1)))
    windows.push_back(Json::parse(*line)["ns"]);
  if (windows.empty()) throw IoError("{}: ended without a result", program.string());
  return median(windows);
}

}  // namespace

void run_eager(const BenchOptions& options) {
  const std::filesystem::path folder = program_path().parent_path();
  const bool peer = options.peer && std::filesystem::exists(folder / "eager_add_peer");
  if (options.peer && !peer)
    print_error("bench eager: libtorch is not measured: it was not there at build time\n");
  std::vector<double> ours, theirs, ratios;
  for (int round = 0; round < (options.quick ? 1 : 5); ++round) {
    ours.push_back(run_once(folder / "eager_add_bench"));
    if (!peer) continue;
    theirs.push_back(run_once(folder / "eager_add_peer"));
    ratios.push_back(theirs.back() / ours.back());
  }
  Json row{{"bench", "eager"}, {"case", "add of 16 floats"}, {"ns", median(ours)}};
  if (peer) {
    row["peer"] = "libtorch";
    row["peer_ns"] = median(theirs);
    row["ratio"] = median(ratios);
  }
  if (options.json)
    fmt::print("{}\n", row.dump());
  else
    fmt::print("add of 16 floats: {:.0f} ns{}\n", median(ours),
               peer ? fmt::format("   {:.2f}x libtorch", median(ratios)) : "");
}

}  // namespace lockstep::bench
