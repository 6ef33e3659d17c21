// SPDX-License-Identifier: Apache-2.0
#include "bench/scale_bench.h"

#include <fmt/core.h>

#include <algorithm>

#include "bench/peer.h"
#include "bench/train_command.h"
#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/observe/progress.h"

namespace lockstep::bench {
namespace {

constexpr const char* kBench = "bench scale";
constexpr int kShards = 8;
constexpr int kPeerProcesses = 2;

std::string name_of(const ScaleSetup& setup) {
  return fmt::format("--workers {} --threads {}", setup.workers, setup.threads);
}

std::vector<std::string> words_of(const ScaleSetup& setup) {
  return {"--shards",  std::to_string(kShards),      "--workers", std::to_string(setup.workers),
          "--threads", std::to_string(setup.threads)};
}

// All sides of one recipe.
struct Contest {
  TrainCase what;
  std::int64_t steps = kFewestSteps;
  std::vector<ScaleSetup> setups;
  std::vector<Side> peers;      // on two processes
  std::vector<Side> peers_one;  // on one
};

std::vector<ScaleSetup> setups_of(const ScaleOptions& options) {
  std::vector<ScaleSetup> setups;
  for (const int workers : options.workers)
    for (const int threads : options.threads) setups.push_back({workers, threads});
  return setups;
}

Contest gather(const TrainCase& what, const ScaleOptions& options) {
  Contest contest{what, kFewestSteps, setups_of(options), {}, {}};
  if (!options.peer) return contest;
  const auto start = [&](int processes) {
    const PeerKind kind{fmt::format("{} processes", processes),
                        {"--processes", std::to_string(processes)}};
    return start_peers("bench scale", what, in_each_format(what.model, kind));
  };
  contest.peers = start(kPeerProcesses);
  if (!contest.peers.empty()) contest.peers_one = start(1);
  return contest;
}

void train_round(Contest& contest, ScaleSetup& setup) {
  const Json row = train_once(kBench, contest.what, contest.steps, words_of(setup));
  setup.rates.push_back(row["samples_per_s"]);
  setup.params_sha256 = row["params_sha256"];
}

// Sides take turns; every other round goes backwards, so that none is always first.
void run_rounds(Contest& contest, const ScaleOptions& options) {
  const double seconds = options.quick ? 0.5 : 5.0;
  const int rounds = options.quick ? 1 : 3;
  // The same for all setups, so that all end with the same parameters.
  contest.steps = steps_for(seconds, kBench, contest.what, words_of(contest.setups.front()));
  std::vector<std::function<void()>> turns;
  for (ScaleSetup& setup : contest.setups) turns.emplace_back([&] { train_round(contest, setup); });
  for (std::vector<Side>* sides : {&contest.peers_one, &contest.peers})
    for (Side& side : *sides) turns.emplace_back([&, seconds] { side.window(seconds); });
  observe::Progress progress(observe::standard_error());
  progress.begin({.label = "bench scale: " + contest.what.model,
                  .total = rounds * static_cast<std::int64_t>(turns.size())});
  std::int64_t done = 0;
  for (int round = 0; round < rounds; ++round, std::reverse(turns.begin(), turns.end()))
    for (const auto& turn : turns) {
      turn();
      progress.update(++done);
    }
  progress.finish();
}

Json row_of(const Contest& contest, const ScaleSetup& setup, int cores) {
  Json row{{"bench", "scale"},
           {"recipe", contest.what.model},
           {"global_batch", contest.what.batch},
           {"shards", kShards},
           {"steps", contest.steps},
           {"cores", cores},
           {"workers", setup.workers},
           {"threads", setup.threads},
           {"samples_per_s", median(setup.rates)}};
  row.update(scaling_of(setup, contest.setups.front(), cores));
  row["params_sha256"] = setup.params_sha256;
  const Side* peer = fastest(contest.peers);
  if (peer == nullptr || setup.used_cores(cores) != kPeerProcesses) return row;
  row["peer"] = "PyTorch DDP";
  row["peer_samples_per_s"] = peer->rate();
  row["ratio"] = median_ratio(setup.rates, peer->rates);
  return row;
}

// PyTorch's own: how much faster its two processes are than its one.
Json peer_row(const Contest& contest, int cores) {
  const Side *two = fastest(contest.peers), *one = fastest(contest.peers_one);
  Json row{{"bench", "scale"},      {"recipe", contest.what.model},
           {"peer", "PyTorch DDP"}, {"peer_kind", two->label},
           {"cores", cores},        {"workers", kPeerProcesses},
           {"threads", 1},          {"samples_per_s", two->rate()}};
  if (one != nullptr)
    row.update(scaling_of({kPeerProcesses, 1, two->rates}, {1, 1, one->rates}, cores));
  return row;
}

void print_titles() {
  fmt::print("{:<24} {:>7} {:>7} {:>12} {:>8} {:>10}   {}\n", "recipe", "workers", "threads",
             "samples/s", "speed-up", "efficiency", "against PyTorch DDP");
}

void print_text(const Json& row) {
  const bool own = row.contains("params_sha256");
  fmt::print("{:<24} {:>7} {:>7} {:>12.1f}",
             row["recipe"].get<std::string>() + (own ? "" : " (DDP)"), row["workers"].get<int>(),
             row["threads"].get<int>(), row["samples_per_s"].get<double>());
  if (row.contains("speedup"))
    fmt::print(" {:>7.2f}x {:>9.0f}%", row["speedup"].get<double>(),
               100 * row["efficiency"].get<double>());
  if (row.contains("ratio")) fmt::print("   {:.2f}x", row["ratio"].get<double>());
  fmt::print("\n");
}

void print_row(const Json& row, bool json) {
  if (json)
    fmt::print("{}\n", row.dump());
  else
    print_text(row);
  std::fflush(stdout);
}

void run_case(const TrainCase& what, const ScaleOptions& options) {
  const int cores = usable_threads();
  Contest contest = gather(what, options);
  run_rounds(contest, options);
  check_same_parameters(what.model, contest.setups);
  for (const ScaleSetup& setup : contest.setups)
    print_row(row_of(contest, setup, cores), options.json);
  if (!contest.peers.empty()) print_row(peer_row(contest, cores), options.json);
}

}  // namespace

int ScaleSetup::used_cores(int cores) const { return std::min(workers * threads, cores); }

void check_same_parameters(const std::string& recipe, const std::vector<ScaleSetup>& setups) {
  for (const ScaleSetup& setup : setups)
    if (setup.params_sha256 != setups.front().params_sha256)
      throw Corrupt("bench scale: {}: {} gives other parameters than {}", recipe, name_of(setup),
                    name_of(setups.front()));
}

Json scaling_of(const ScaleSetup& setup, const ScaleSetup& first, int cores) {
  const double speedup = median_ratio(setup.rates, first.rates);
  const double more = static_cast<double>(setup.used_cores(cores)) / first.used_cores(cores);
  return {{"speedup", speedup}, {"efficiency", speedup / more}};
}

void run_scale(const ScaleOptions& options) {
  for (const int workers : options.workers)
    if (workers > kShards)
      throw InvalidArgument("bench scale: {} workers, expected at most {}: one for each shard",
                            workers, kShards);
  const std::vector<TrainCase> cases = chosen_cases("bench scale", options.recipes);
  if (!options.json) print_titles();
  for (const TrainCase& what : cases) run_case(what, options);
}

}  // namespace lockstep::bench
