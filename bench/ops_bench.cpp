// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "bench/bench.h"
#include "bench/op_table.h"
#include "bench/responder.h"
#include "lockstep/base/error.h"
#include "lockstep/base/print_error.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/executable.h"

namespace lockstep::bench {
namespace {

// Microseconds of a call, over at least `seconds`.
template <class F>
double window_us(double seconds, F&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t calls = 0, batch = 1;; batch = std::min<std::int64_t>(2 * batch, 1000)) {
    for (std::int64_t i = 0; i < batch; ++i) call();
    calls += batch;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() >= seconds) return spent.count() / static_cast<double>(calls) * 1e6;
  }
}

double magnitude(const Tensor& result) {
  double total = 0;
  for (const double value : result.to_vector<double>()) total += std::abs(value);
  return total / static_cast<double>(result.numel());
}

struct Times {
  std::vector<double> eager, compiled, peer;
  double peer_magnitude = 0;
};

std::unique_ptr<Responder> start_peer() {
  try {
    auto peer =
        std::make_unique<Responder>(std::vector<std::string>{kPython, peer_script("ops_peer.py")});
    peer->answer();
    return peer;
  } catch (const Error& error) {
    print_error("bench ops: PyTorch is not measured: {}\n", error.what());
    return nullptr;
  }
}

Times measure(const OpBench& bench, const std::vector<Tensor>& inputs, Responder* peer,
              bool quick) {
  const double seconds = quick ? 0.02 : 0.15;
  CompiledFunction compiled = compile(bench.run);
  compiled(inputs);
  Times times;
  for (int round = 0; round < (quick ? 2 : 5); ++round) {
    times.eager.push_back(window_us(seconds, [&] { bench.run(inputs); }));
    times.compiled.push_back(window_us(seconds, [&] { compiled(inputs); }));
    if (peer == nullptr) continue;
    const Json answer = peer->ask(fmt::format("{} {}", seconds, bench.str()));
    times.peer.push_back(answer["us"]);
    times.peer_magnitude = answer["magnitude"];
  }
  return times;
}

// How many times as fast we are as the peer, by the median of the rounds.
double speed_up(const std::vector<double>& peer, const std::vector<double>& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < peer.size(); ++i) ratios.push_back(peer[i] / ours[i]);
  return median(ratios);
}

void check_result(const OpBench& bench, double ours, double peer) {
  if (std::abs(ours - peer) > 1e-3 * std::abs(peer) + 1e-6)
    throw Corrupt("bench ops: {}: mean magnitude {} here, {} in PyTorch", bench.str(), ours, peer);
}

Json row_of(const OpBench& bench, const Times& times) {
  Json row{{"bench", "ops"},
           {"op", bench.op},
           {"case", bench.str()},
           {"eager_us", median(times.eager)},
           {"compiled_us", median(times.compiled)}};
  if (times.peer.empty()) return row;
  row["peer"] = "PyTorch";
  row["peer_us"] = median(times.peer);
  row["eager_ratio"] = speed_up(times.peer, times.eager);
  row["compiled_ratio"] = speed_up(times.peer, times.compiled);
  return row;
}

void print_row(const Json& row, bool json) {
  if (json) {
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:<52} eager {:>10.2f} us   compiled {:>10.2f} us", row["case"].get<std::string>(),
               row["eager_us"].get<double>(), row["compiled_us"].get<double>());
    if (row.contains("peer"))
      fmt::print("   {:.2f}x / {:.2f}x PyTorch", row["eager_ratio"].get<double>(),
                 row["compiled_ratio"].get<double>());
    fmt::print("\n");
  }
  std::fflush(stdout);
}

bool wanted(const OpBench& bench, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), bench.op) != names.end();
}

}  // namespace

void run_ops(const BenchOptions& options) {
  const std::unique_ptr<Responder> peer = options.peer ? start_peer() : nullptr;
  for (const OpBench& bench : op_benches()) {
    if (!wanted(bench, options.names)) continue;
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < bench.operands.size(); ++i)
      inputs.push_back(make_operand(bench.operands[i], static_cast<std::uint32_t>(i)));
    const double ours = magnitude(bench.run(inputs).at(0));
    const Times times = measure(bench, inputs, peer.get(), options.quick);
    if (peer) check_result(bench, ours, times.peer_magnitude);
    print_row(row_of(bench, times), options.json);
  }
}

}  // namespace lockstep::bench
