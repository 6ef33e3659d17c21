// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/activities.h"

#include <filesystem>

#include "lockstep/autograd/autograd.h"
#include "lockstep/data/stream.h"
#include "lockstep/data/subset.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/compression.h"
#include "lockstep/train/observers.h"
#include "tests/comm/worlds.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/train/small_run.h"

namespace lockstep::testing {
namespace {

constexpr std::int64_t kShapes = 200;  // of a round

// Numbers that visit a range in no order, and differ from round to round.
std::int64_t mixed(std::int64_t round, std::int64_t i, std::int64_t below) {
  const auto value = static_cast<std::uint64_t>(round * kShapes + i + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::int64_t>((value >> 33) % static_cast<std::uint64_t>(below));
}

void run_eager(std::int64_t round) {
  const RandomScope draws(random_key(static_cast<std::uint64_t>(round), 0, 0));
  for (std::int64_t i = 0; i < kShapes; ++i) {
    const std::int64_t rows = 1 + mixed(round, i, 97), columns = 1 + mixed(round, i + 7, 61);
    const Tensor x = uniform({rows, columns}), w = uniform({columns, 16});
    autograd::attach_grad(w);
    const autograd::RecordScope record;
    autograd::backward(sum(softmax(matmul(relu(x), w)) * 2.0));
  }
}

// Large and growing: what a pool has to let go of.
void grow_a_tensor(std::int64_t) {
  Tensor all = Tensor::zeros({1000});
  while (all.numel() < 4'000'000) {
    const std::int64_t more = all.numel() / 3;
    all = concat({all, Tensor::zeros({more})}, 0);
  }
}

void compile_functions(std::int64_t round) {
  for (std::int64_t i = 0; i < 8; ++i) {
    auto function =
        compile([](const std::vector<Tensor>& in) { return std::vector{tanh(in[0]) * in[0]}; });
    const Tensor x = Tensor::zeros({1 + mixed(round, i, 500), 3});
    function({x});
    function({x});
  }
}

train::Trainer trainer_of(int threads, kvstore::Mode* mode, std::int64_t round) {
  return {small_net(),
          cross_entropy(),
          optim::adam({.learning_rate = 0.01}),
          {.global_batch = 24,
           .shards = 8,
           .threads = threads,
           .seed = static_cast<std::uint64_t>(round),
           .mode = mode}};
}

// Stopped in the middle and resumed, with everything that a run writes.
void train_on_threads(const std::string& folder, std::int64_t round) {
  std::filesystem::remove_all(folder);
  const observe::RunFolder run = observe::RunFolder::create(folder);
  train::FitOptions options = small_fit(2);
  options.checkpoints = run.checkpoints_path();
  options.loader_threads = 2;
  options.callbacks = {train::record_metrics(run)};
  options.steps = 5;
  trainer_of(1 + static_cast<int>(round % 3), nullptr, 1).fit(small_images(100), options);
  options.steps = 8;
  options.resume = true;
  train::Trainer trainer = trainer_of(1 + static_cast<int>(round % 3), nullptr, 1);
  trainer.fit(small_images(100), options);
  trainer.predict(small_images(40, 6), {.threads = 2, .transform = data::to_tensor()});
}

void train_as_worker(comm::Communicator& communicator, const char* compression,
                     std::int64_t round) {
  kvstore::AllReduceOptions exchange;
  exchange.compression = kvstore::parse_compression(compression);
  const auto mode = kvstore::allreduce_mode(communicator, exchange);
  trainer_of(1, mode.get(), round).fit(small_images(100), small_fit(1));
}

void train_on_workers(const comm::WorldKind& kind, std::int64_t round) {
  constexpr const char* kCompressions[] = {"none", "fp16", "bf16", "2bit"};
  comm::run_ranks(kind, 2 + static_cast<int>(round % 2), [&](comm::Communicator& communicator) {
    train_as_worker(communicator, kCompressions[round % 4], round);
  });
}

class Noise final : public data::SampleStream {
 public:
  std::optional<data::Fields> next() override {
    if (++count_ > 50) return std::nullopt;
    return data::Fields{Tensor::zeros({8, 8, 1}), Tensor::zeros({}, DType::int64)};
  }

 private:
  int count_ = 0;
};

void read_streams(std::int64_t) {
  const auto stream =
      std::make_shared<data::StreamDataset>([] { return std::make_unique<Noise>(); }, 48);
  train::FitOptions options;
  options.epochs = 2;
  options.sampler = data::stream_sampler(48);
  options.transform = data::to_tensor();
  options.loader_threads = 2;
  trainer_of(1, nullptr, 1).fit(stream, options);
}

}  // namespace

std::vector<Activity> soak_activities(const std::string& folder) {
  std::vector<Activity> all = {
      {"eager", run_eager},
      {"growing", grow_a_tensor},
      {"compiled", compile_functions},
      {"threads", [folder](std::int64_t round) { train_on_threads(folder + "/run", round); }},
      {"streams", read_streams}};
  // UCX keeps memory and descriptors of its own for as long as the process lives.
  for (const comm::WorldKind& kind : comm::world_kinds())
    if (kind.name.find("ucx") == std::string::npos)
      all.push_back({"workers over " + kind.name,
                     [kind](std::int64_t round) { train_on_workers(kind, round); }});
  return all;
}

}  // namespace lockstep::testing
