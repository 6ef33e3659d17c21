// SPDX-License-Identifier: Apache-2.0
// A class and a number from one body, with a loss that learns how much each of the two counts.
//
//   multi_task [STEPS] [THREADS]        lockstep launch --workers 2 -- multi_task
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"

using namespace lockstep;

class TwoHeads : public nn::Block {
 public:
  train::Tensors forward_all(const train::Tensors& x) override {
    const Tensor hidden = (*body_)(x.at(0));
    return {(*side_)(hidden), (*size_)(hidden)};
  }

 private:
  nn::BlockPtr body_ = add_child("body", nn::dense(32, {.activation = "relu"}));
  nn::BlockPtr side_ = add_child("side", nn::dense(3));
  nn::BlockPtr size_ = add_child("size", nn::dense(1));
};

// Each task's loss is divided by a variance that is learnt (Kendall et al., 2018).
class Uncertainty : public nn::Block {
 public:
  train::Tensors forward_all(const train::Tensors& x) override {  // outputs, then labels
    const Tensor losses = stack({mean(nn::SoftmaxCrossEntropyLoss()(x.at(0), x.at(2))),
                                 mean(nn::L2Loss()(x.at(1), x.at(3)))});
    return {sum(losses * exp(-log_var_.data()) + log_var_.data() * 0.5)};
  }

 private:
  nn::Parameter log_var_ = add_parameter("log_var", {2}, {.init = nn::init::zero()});
};

data::DatasetPtr points(std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  const Tensor x = normal({2048, 6});
  return std::make_shared<data::ArrayDataset>(
      data::Fields{x, argmax(slice(x, {0, 0}, {2048, 3}), 1), sum(square(x), {1}) * 0.1});
}

int main(int argc, char** argv) {
  const train::OwnJob own = train::join_job();
  train::TrainerOptions options{.global_batch = 64, .threads = argc > 2 ? std::atoi(argv[2]) : 1};
  options.fields = {train::input("point"), train::label("side"), train::label("size")};
  options.mode = own.mode.get();
  train::Trainer trainer(std::make_shared<TwoHeads>(), std::make_shared<Uncertainty>(),
                         optim::adam({.learning_rate = 0.01}), options);
  train::FitOptions fit{.steps = argc > 1 ? std::atoll(argv[1]) : 400, .validation = points(2)};
  fit.metrics = {nn::metric("accuracy"), nn::metric_of(nn::metric("mae"), {1, 1, "size_error"})};
  const train::FitResult result = trainer.fit(points(1), fit);
  if (!own.is_first()) return 0;  // one speaks for all
  for (const auto& [name, value] : result.validation.metrics)
    fmt::print("{} {:.4f}\n", name, value);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}
