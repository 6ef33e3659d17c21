// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "bench/bench.h"
#include "bench/responder.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kWidth = 64, kClasses = 4, kShards = 4;

struct Size {
  std::int64_t rows = 0;     // of the table
  std::int64_t touched = 0;  // by a step, more or less: ids are drawn
};

std::vector<data::Fields> batch(const Size& size, std::uint32_t step) {
  std::vector<data::Fields> shards;
  for (std::uint32_t s = 0; s < kShards; ++s) {
    const RandomScope draws(random_key(1, step, s));
    shards.push_back({randint(0, size.rows, {size.touched / kShards}),
                      randint(0, kClasses, {size.touched / kShards})});
  }
  return shards;
}

struct Side {
  std::string sha256;  // after the first steps
  double seconds = std::numeric_limits<double>::infinity();
  std::size_t bytes = 0;
};

// By a rule that keeps nothing, so that lazy and whole updates are the same.
Side measure(const Size& size, bool sparse, int steps) {
  const nn::BlockPtr net = nn::sequential(nn::embedding(size.rows, kWidth, {.sparse_grad = sparse}),
                                          nn::dense(kClasses));
  net->initialize(nn::init::normal(0.1), 1);
  train::StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), optim::sgd(),
                           data::infos_of(batch(size, 0)[0]), {.shards = kShards});
  Side side;
  std::uint32_t step = 0;
  for (; step < 2; ++step) engine.run(step, 0.1, batch(size, step));
  side.sha256 = engine.params_sha256();
  side.bytes = engine.step_bytes();
  for (const std::uint32_t last = step + static_cast<std::uint32_t>(steps); step < last; ++step) {
    const std::vector<data::Fields> shards = batch(size, step);
    const auto begin = std::chrono::steady_clock::now();
    engine.run(step, 0.1, shards);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    side.seconds = std::min(side.seconds, spent.count());
  }
  return side;
}

}  // namespace

void run_embedding(const BenchOptions& options) {
  const std::vector<Size> sizes =
      options.quick ? std::vector<Size>{{10'000, 2000}, {100'000, 2000}}
                    : std::vector<Size>{{10'000, 2000}, {100'000, 2000}, {1'000'000, 2000}};
  if (!options.json)
    fmt::print("    rows  width  looked up    dense    sparse  (ms)  speed-up  memory (MB)\n");
  for (const Size& size : sizes) {
    const Side dense = measure(size, false, options.quick ? 3 : 5);
    const Side sparse = measure(size, true, options.quick ? 20 : 100);
    if (sparse.sha256 != dense.sha256)
      throw InternalError(fmt::format(
          "bench embedding: {} rows: sparse and dense gradients give other weights", size.rows));
    const double ratio = dense.seconds / sparse.seconds;
    const double megabyte = 1 << 20;
    if (options.json)
      fmt::print("{}\n", Json{{"bench", "embedding"},
                              {"rows", size.rows},
                              {"width", kWidth},
                              {"looked_up", size.touched},
                              {"dense_ms", 1e3 * dense.seconds},
                              {"sparse_ms", 1e3 * sparse.seconds},
                              {"speed_up", ratio},
                              {"dense_bytes", dense.bytes},
                              {"sparse_bytes", sparse.bytes}}
                             .dump());
    else
      fmt::print("{:8} {:6} {:10} {:8.2f} {:9.3f} {:15.1f} {:6.0f} {:5.0f}\n", size.rows, kWidth,
                 size.touched, 1e3 * dense.seconds, 1e3 * sparse.seconds, ratio,
                 static_cast<double>(dense.bytes) / megabyte,
                 static_cast<double>(sparse.bytes) / megabyte);
    std::fflush(stdout);
  }
}

}  // namespace lockstep::bench
