// SPDX-License-Identifier: Apache-2.0
// Two nets against each other, by hand: a loop with two optimisers, which a Trainer does not have.
//
//   gan [STEPS]
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/io/archive.h"
#include "lockstep/lockstep.h"

using namespace lockstep;

constexpr std::int64_t kBatch = 64, kNoise = 4;

nn::BlockPtr net_of(std::int64_t outputs, std::int64_t inputs, std::uint64_t seed) {
  nn::BlockPtr net = nn::sequential(nn::dense(32, {.activation = "relu"}), nn::dense(outputs));
  net->initialize(nn::init::fan_in(), seed);
  net->complete_shapes({{{kBatch, inputs}, DType::float32, {}}});
  return net;
}

// How far the net is from calling all of `x` real, or none of it.
Tensor judged(nn::Block& net, const Tensor& x, double real) {
  const Tensor scores = net(x);
  return mean(nn::SigmoidBinaryCrossEntropyLoss()(scores, Tensor::full(scores.shape(), real)));
}

template <class Loss>
double learn(optim::Updater& updater, const Loss& loss) {
  Tensor value;
  {
    const autograd::RecordScope record;
    value = loss();
  }
  autograd::backward(value);
  updater.step();
  return value.item();
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 500;
  const nn::BlockPtr generator = net_of(2, kNoise, 1), critic = net_of(1, 2, 2);
  optim::Updater makes(generator->parameters(), optim::adam({.learning_rate = 0.002}));
  optim::Updater tells(critic->parameters(), optim::adam({.learning_rate = 0.002}));
  for (std::int64_t step = 0; step < steps; ++step) {
    const RandomScope draws(random_key(3, static_cast<std::uint32_t>(step)));
    const Tensor real = normal({kBatch, 2}, 1.0, 0.5), noise = normal({kBatch, kNoise});
    const Tensor made = (*generator)(noise);  // not recorded: a constant for the critic
    const double told =
        learn(tells, [&] { return judged(*critic, real, 1) + judged(*critic, made, 0); });
    const double fooled = learn(makes, [&] { return judged(*critic, (*generator)(noise), 1); });
    if (step + 1 == steps) fmt::print("critic {:.4f}, generator {:.4f}\n", told, fooled);
  }
  std::vector<io::NamedTensor> all;
  for (const auto& [name, p] : generator->parameters())
    all.emplace_back("generator." + name, p.data());
  for (const auto& [name, p] : critic->parameters()) all.emplace_back("critic." + name, p.data());
  fmt::print("params_sha256 {}\n", io::tensors_sha256(all));
}
