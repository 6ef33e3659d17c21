// SPDX-License-Identifier: Apache-2.0
#include "bench/step_bench.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "bench/bench.h"
#include "bench/side.h"
#include "lockstep/base/error.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/process.h"
#include "lockstep/ops/sgemm_rate.h"

namespace lockstep::bench {
namespace {

struct Contest {
  Side ours;
  std::vector<Side> halves = {};  // ours in bf16, where asked for
  std::vector<Side> peers = {};
  std::vector<double> sgemm = {};

  void round(int number, double seconds) {
    sgemm.push_back(kernels::sgemm_gflops(seconds / 4));
    if (number % 2 == 0) ours.window(seconds);
    for (Side& half : halves) half.window(seconds);
    for (Side& peer : peers) peer.window(seconds);
    if (number % 2 == 1) ours.window(seconds);
  }
};

Side our_side(const std::string& model, const std::string& dtype) {
  return Side::start(dtype, {program_path(), "bench", "step-side", model, "--dtype", dtype});
}

Side peer_side(const std::string& model, const std::string& layout) {
  std::vector<std::string> command{kPython, peer_script("step_peer.py"), "--serve", "--model",
                                   model};
  if (layout == "channels-last") command.push_back("--channels-last");
  return Side::start(layout, command);
}

// What cannot run beside us is missing from the results, and said once.
void add_side(std::vector<Side>& sides, const std::string& model, const std::string& label,
              Side (*make)(const std::string&, const std::string&)) {
  try {
    sides.push_back(make(model, label));
  } catch (const Error& error) {
    print_error("bench step: {}, {}: not measured: {}\n", model, label, error.what());
  }
}

Contest gather(const std::string& model, const BenchOptions& options) {
  Contest contest{our_side(model, "float32")};
  if (options.bf16) add_side(contest.halves, model, "bfloat16", our_side);
  if (!options.peer) return contest;
  add_side(contest.peers, model, "contiguous", peer_side);
  if (reads_images(model)) add_side(contest.peers, model, "channels-last", peer_side);
  return contest;
}

Json own_row(const std::string& model, const Side& side, const Contest& contest) {
  const double gflop = side.facts["flops_per_sample"].get<double>() * 1e-9;
  std::vector<double> reached;
  for (const double rate : side.rates) reached.push_back(rate * gflop);
  return {{"bench", "step"},
          {"model", model},
          {"dtype", side.label},
          {"batch", side.facts["batch"]},
          {"samples_per_s", side.rate()},
          {"gflops", median(reached)},
          {"sgemm_gflops", median(contest.sgemm)},
          {"sgemm_fraction", median_ratio(reached, contest.sgemm)},
          {"parameter_bytes", side.facts["parameter_bytes"]},
          {"step_bytes", side.facts["step_bytes"]},
          {"allocations_per_step", side.facts["allocations_per_step"]},
          {"peak_bytes", side.facts["peak_rss_bytes_above_idle"]}};
}

void add_peer(Json& row, const Side& side, const Side& peer) {
  const double peer_bytes = peer.facts["peak_rss_bytes_above_idle"];
  row["peer"] = "PyTorch";
  row["peer_layout"] = peer.label;
  row["peer_samples_per_s"] = peer.rate();
  row["ratio"] = median_ratio(side.rates, peer.rates);
  row["peer_peak_bytes"] = peer.facts["peak_rss_bytes_above_idle"];
  row["memory_ratio"] = side.facts["peak_rss_bytes_above_idle"].get<double>() / peer_bytes;
}

void print_text(const Json& row) {
  fmt::print("{:<15} {:<9} {:>10.1f} samples/s {:>7.1f} GFLOP/s = {:.2f} of sgemm {:>7.1f} MB",
             row["model"].get<std::string>(), row["dtype"].get<std::string>(),
             row["samples_per_s"].get<double>(), row["gflops"].get<double>(),
             row["sgemm_fraction"].get<double>(), row["peak_bytes"].get<double>() / 1e6);
  if (row.contains("ratio"))
    fmt::print("   {:.2f}x PyTorch ({}), {:.2f} of its memory", row["ratio"].get<double>(),
               row["peer_layout"].get<std::string>(), row["memory_ratio"].get<double>());
  if (row.contains("ratio_to_float32"))
    fmt::print("   {:.2f}x float32", row["ratio_to_float32"].get<double>());
  fmt::print("\n");
}

void print_row(const Json& row, const BenchOptions& options) {
  if (options.json)
    fmt::print("{}\n", row.dump());
  else
    print_text(row);
  std::fflush(stdout);
}

void run_model(const std::string& model, const BenchOptions& options) {
  Contest contest = gather(model, options);
  const int rounds = options.quick ? 2 : 7;
  for (int i = 0; i < rounds; ++i) contest.round(i, options.quick ? 0.3 : 1.5);
  Json row = own_row(model, contest.ours, contest);
  if (const Side* peer = fastest(contest.peers)) add_peer(row, contest.ours, *peer);
  print_row(row, options);
  for (const Side& side : contest.halves) {
    Json half = own_row(model, side, contest);
    half["ratio_to_float32"] = median_ratio(side.rates, contest.ours.rates);
    print_row(half, options);
  }
}

}  // namespace

void run_step(const BenchOptions& options) {
  const std::vector<std::string> known = recipe_names();
  for (const std::string& name : options.names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw NotFound("bench step: there is no model '{}'; there are {}", name,
                     fmt::join(known, ", "));
  for (const std::string& model : options.names.empty() ? known : options.names)
    run_model(model, options);
}

}  // namespace lockstep::bench
