// SPDX-License-Identifier: Apache-2.0
// Parameter servers by hand: a worker pulls the parameters, computes gradients of its part of the
// batch, and pushes them; the servers add them up and run the optimiser.
//
//   ps_by_hand [FOLDER|synthetic] [STEPS]
//   lockstep launch -n 2 -s 2 -- ps_by_hand        the same bits
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"
#include "lockstep/recipes/recipe_data.h"

using namespace lockstep;

constexpr std::int64_t kBatch = 128, kShards = 4;  // a worker computes some of the shards

void train_digits(const std::string& place, std::int64_t steps) {
  const train::OwnJob own = train::join_job();  // a server stays in here while there are workers
  const auto kv = kvstore::create("dist_sync", own.parts());
  const data::DatasetPtr digits =
      recipes::open_data(recipes::find_recipe("mnist-mlp"), {.place = place}).train;
  const nn::BlockPtr net =
      nn::sequential(nn::flatten(), nn::dense(128, {.activation = "relu"}), nn::dense(10));
  net->initialize(nn::init::fan_in(), /*seed=*/1);
  net->complete_shapes({{{1, 1, 28, 28}, DType::float32, {}}});
  for (const auto& [name, p] : net->parameters()) kv->init(name, p.data());
  kv->set_optimizer(optim::sgd({.learning_rate = 0.1, .momentum = 0.9}), 1.0 / kShards);

  data::ShardSampler batches(data::random_sampler(digits->size(), /*seed=*/1), kBatch, kShards);
  const std::int64_t first = kv->rank() * kShards / kv->num_workers();
  const std::int64_t end = (kv->rank() + 1) * kShards / kv->num_workers();
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const auto& [name, p] : net->parameters()) p.set_data(kv->pull(name));
    std::map<std::string, std::vector<Tensor>> gradients;
    for (std::int64_t shard = first; shard < end; ++shard) {
      const data::Fields batch =
          data::load_batch(*digits, batches.samples(step, shard), data::to_tensor());
      Tensor loss;
      {
        const autograd::RecordScope record;
        loss = mean(nn::SoftmaxCrossEntropyLoss()((*net)(batch[0]), batch[1]));
      }
      autograd::backward(loss);
      for (const auto& [name, p] : net->parameters()) gradients[name].push_back(p.grad().copy());
      if (shard == 0 && step + 1 == steps) fmt::print("loss {:.4f}\n", loss.item());
    }
    for (const auto& [name, values] : gradients) kv->push(name, values);
  }
  std::vector<io::NamedTensor> all;
  for (const auto& [name, p] : net->parameters()) all.emplace_back(name, kv->pull(name));
  if (kv->rank() == 0) fmt::print("params_sha256 {}\n", io::tensors_sha256(all));
  kv->barrier();
}

int main(int argc, char** argv) {
  train_digits(argc > 1 ? argv[1] : "synthetic", argc > 2 ? std::atoll(argv[2]) : 500);
}
