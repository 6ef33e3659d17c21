// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <chrono>
#include <cmath>

#include "bench/bench.h"
#include "bench/responder.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kWidth = 16;
constexpr std::int64_t kBatch = 8;

nn::BlockPtr deep_net(int layers) {
  auto net = std::make_shared<nn::Sequential>();
  for (int i = 0; i < layers; ++i)
    net->add(nn::dense(kWidth, {.inputs = kWidth, .activation = "relu"}));
  net->initialize();
  return net;
}

// Of a call in the fastest of `windows`, each of `calls`.
template <class F>
double seconds_of(int windows, F&& call, int calls = 1) {
  double best = 1e9;
  for (int window = 0; window < windows; ++window) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    best = std::min(best, spent.count() / calls);
  }
  return best;
}

void check_same(const Tensor& a, const Tensor& b, int layers) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::abs(x[i] - y[i]) > 1e-4 * (1.0 + std::abs(x[i])))
      throw InternalError(
          fmt::format("bench deep: {} layers give {} eagerly and {} compiled", layers, x[i], y[i]));
}

Json measure(int layers, bool quick) {
  const RandomScope draws(random_key(1));
  const Tensor x = normal({kBatch, kWidth});
  const nn::BlockPtr net = deep_net(layers);
  const int windows = quick ? 5 : 40, calls = std::max(1, 1000 / layers);
  Json row{{"bench", "deep"}, {"layers", layers}};
  const Tensor eager = (*net)(x);
  row["eager_ms"] = 1e3 * seconds_of(
                              windows, [&] { (*net)(x); }, calls);
  net->hybridize();
  row["compile_ms"] = 1e3 * seconds_of(1, [&] { check_same(eager, (*net)(x), layers); });
  row["hybridized_ms"] = 1e3 * seconds_of(
                                   windows, [&] { (*net)(x); }, calls);
  net->hybridize(false);
  std::unique_ptr<train::StepEngine> engine;
  const std::vector<TensorInfo> fields{x.info(), {{kBatch}, DType::int64, {}}};
  row["build_ms"] = 1e3 * seconds_of(1, [&] {
                      engine = std::make_unique<train::StepEngine>(
                          net, nn::SoftmaxCrossEntropyLoss(), optim::sgd(), fields,
                          train::EngineOptions{.shards = 2});
                    });
  const data::Fields batch{x, Tensor::zeros({kBatch}, DType::int64)};
  const std::vector<data::Fields> shards(2, batch);
  std::int64_t step = 0;
  row["step_ms"] = 1e3 * seconds_of(3, [&] { engine->run(step++, 0.0, shards); });
  row["store_ms"] = 1e3 * seconds_of(3, [&] { engine->store(*net); });
  row["load_ms"] = 1e3 * seconds_of(3, [&] { engine->load(*net); });
  check_same(eager, (*net)(x), layers);
  return row;
}

}  // namespace

void run_deep(const BenchOptions& options) {
  if (!options.json)
    fmt::print("layers    eager  hybridized  compile |   build   step  store   load  (ms)\n");
  for (const int layers : {1, 10, 100, 1000, 3200}) {
    const Json row = measure(layers, options.quick);
    if (options.json) {
      fmt::print("{}\n", row.dump());
      continue;
    }
    const auto ms = [&](const char* name) { return row[name].get<double>(); };
    fmt::print("{:6} {:8.4f} {:11.4f} {:8.1f} | {:7.1f} {:6.2f} {:6.2f} {:6.2f}\n", layers,
               ms("eager_ms"), ms("hybridized_ms"), ms("compile_ms"), ms("build_ms"), ms("step_ms"),
               ms("store_ms"), ms("load_ms"));
    std::fflush(stdout);
  }
}

}  // namespace lockstep::bench
