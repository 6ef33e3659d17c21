// SPDX-License-Identifier: Apache-2.0
#include "bench/train_bench.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "bench/bench.h"
#include "bench/peer.h"
#include "lockstep/base/error.h"
#include "lockstep/base/process.h"
#include "lockstep/observe/progress.h"

// Training with the step engine: eight shards on one thread and on two, the whole batch as one
// shard, and PyTorch on two cores in each way it has: two threads, or two processes on gloo, in
// each memory format.
namespace lockstep::bench {
namespace {

constexpr int kShards = 8;

struct Contest {
  Side one_thread, two_threads, one_shard;
  std::vector<Side> peers = {};

  std::vector<Side*> sides() {
    std::vector<Side*> all{&one_thread, &two_threads, &one_shard};
    for (Side& peer : peers) all.push_back(&peer);
    return all;
  }

  // Every other round goes backwards, so that no side is always first.
  void round(int number, double seconds) {
    std::vector<Side*> order = sides();
    if (number % 2 == 1) std::reverse(order.begin(), order.end());
    for (Side* side : order) side->window(seconds);
  }
};

Side our_side(const TrainCase& what, int shards, int threads) {
  return Side::start(
      fmt::format("{} shards, {} threads", shards, threads),
      {program_path(), "bench", "train-side", what.model, "--batch", std::to_string(what.batch),
       "--shards", std::to_string(shards), "--threads", std::to_string(threads)});
}

std::vector<PeerKind> peer_kinds(const std::string& model) {
  std::vector<PeerKind> kinds = in_each_format(model, {"2 threads", {"--threads", "2"}});
  for (PeerKind& kind : in_each_format(model, {"2 processes", {"--processes", "2"}}))
    kinds.push_back(std::move(kind));
  return kinds;
}

Contest gather(const TrainCase& what, const BenchOptions& options) {
  Contest contest{our_side(what, kShards, 1), our_side(what, kShards, 2), our_side(what, 1, 1)};
  if (options.peer) contest.peers = start_peers("bench train", what, peer_kinds(what.model));
  return contest;
}

// A side that was given little time may be above where it began: labels are random.
constexpr double kGrowth = 1.2;

// A rate counts only when what was computed is right.
void verify(const TrainCase& what, Contest& contest) {
  if (contest.one_thread.ready["params_sha256"] != contest.two_threads.ready["params_sha256"])
    throw Corrupt("bench train: {}: 1 and 2 threads give different parameters", what.model);
  for (const Side* side : contest.sides())
    if (!(side->facts["loss"].get<double>() < kGrowth * side->ready["loss"].get<double>()))
      throw Corrupt("bench train: {}, {}: the loss went from {} to {}, which is no training",
                    what.model, side->label, side->ready["loss"].get<double>(),
                    side->facts["loss"].get<double>());
}

Json row_of(const TrainCase& what, const Contest& contest) {
  Json row{{"bench", "train"},
           {"model", what.model},
           {"batch", what.batch},
           {"shards", kShards},
           {"samples_per_s_1_thread", contest.one_thread.rate()},
           {"samples_per_s_2_threads", contest.two_threads.rate()},
           {"speedup", median_ratio(contest.two_threads.rates, contest.one_thread.rates)},
           {"samples_per_s_1_shard", contest.one_shard.rate()},
           {"shards_cost", median_ratio(contest.one_shard.rates, contest.one_thread.rates) - 1.0},
           {"params_sha256", contest.two_threads.ready["params_sha256"]},
           {"loss", contest.two_threads.facts["loss"]}};
  if (const Side* peer = fastest(contest.peers)) {
    row["peer"] = "PyTorch";
    row["peer_kind"] = peer->label;
    row["peer_samples_per_s"] = peer->rate();
    row["ratio"] = median_ratio(contest.two_threads.rates, peer->rates);
  }
  return row;
}

void print_text(const Json& row) {
  fmt::print(
      "{:<15} {:>9.1f} samples/s on 1 thread {:>9.1f} on 2 = {:.2f}x; 8 shards cost {:+.1f}%",
      row["model"].get<std::string>(), row["samples_per_s_1_thread"].get<double>(),
      row["samples_per_s_2_threads"].get<double>(), row["speedup"].get<double>(),
      100.0 * row["shards_cost"].get<double>());
  if (row.contains("ratio"))
    fmt::print("   {:.2f}x PyTorch ({})", row["ratio"].get<double>(),
               row["peer_kind"].get<std::string>());
  fmt::print("\n");
}

void run_case(const TrainCase& what, const BenchOptions& options) {
  Contest contest = gather(what, options);
  const int rounds = options.quick ? 2 : 7;
  observe::Progress progress(observe::standard_error());
  progress.begin({.label = "bench train: " + what.model, .total = rounds});
  for (int i = 0; i < rounds; ++i) {
    contest.round(i, options.quick ? 0.3 : 2.0);
    progress.update(i + 1);
  }
  progress.finish();
  verify(what, contest);
  const Json row = row_of(what, contest);
  if (options.json)
    fmt::print("{}\n", row.dump());
  else
    print_text(row);
  std::fflush(stdout);
}

}  // namespace

const std::vector<TrainCase>& train_cases() {
  static const std::vector<TrainCase> cases{{"mnist-mlp", 128}, {"mnist-lenet", 128},
                                            {"cifar-cnn", 128}, {"cifar-resnet18", 32},
                                            {"text-lstm", 32},  {"char-gpt", 32}};
  return cases;
}

std::vector<std::string> train_case_names() {
  std::vector<std::string> names;
  for (const TrainCase& what : train_cases()) names.push_back(what.model);
  return names;
}

std::vector<TrainCase> chosen_cases(const std::string& bench,
                                    const std::vector<std::string>& names) {
  const std::vector<std::string> known = train_case_names();
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw NotFound("{}: there is no model '{}'; there are {}", bench, name,
                     fmt::join(known, ", "));
  if (names.empty()) return train_cases();
  std::vector<TrainCase> chosen = train_cases();
  std::erase_if(chosen, [&](const TrainCase& what) {
    return std::find(names.begin(), names.end(), what.model) == names.end();
  });
  return chosen;
}

void run_train(const BenchOptions& options) {
  for (const TrainCase& what : chosen_cases("bench train", options.names)) run_case(what, options);
}

}  // namespace lockstep::bench
