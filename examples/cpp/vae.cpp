// SPDX-License-Identifier: Apache-2.0
// A variational autoencoder: one field that is input and label, three outputs, a loss of all.
//
//   vae [STEPS] [THREADS]        lockstep launch --workers 2 -- vae
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"

using namespace lockstep;

class Vae : public nn::Block {
 public:
  Vae()
      : encoder_(add_child("encoder", nn::dense(64, {.activation = "relu"}))),
        mean_(add_child("mean", nn::dense(4))),
        log_var_(add_child("log_var", nn::dense(4))),
        decoder_(add_child("decoder",
                           nn::sequential(nn::dense(64, {.activation = "relu"}), nn::dense(64)))) {}
  train::Tensors forward_all(const train::Tensors& x) override {
    const Tensor hidden = (*encoder_)(x.at(0));
    const Tensor mean = (*mean_)(hidden), log_var = (*log_var_)(hidden);
    if (!autograd::is_training()) return {(*decoder_)(mean), mean, log_var};
    return {(*decoder_)(mean + exp(log_var * 0.5) * normal(mean.shape())), mean, log_var};
  }

 private:
  nn::BlockPtr encoder_, mean_, log_var_, decoder_;
};

// What the decoder gets wrong, and how far the codes are from a normal distribution.
Tensor negative_elbo(const train::Tensors& outputs, const train::Tensors& labels) {
  const Tensor &mean = outputs[1], &log_var = outputs[2];
  const Tensor wrong = sum(sigmoid_cross_entropy(outputs[0], labels[0]), {1});
  return wrong - sum(log_var + 1.0 - square(mean) - exp(log_var), {1}) * 0.5;
}

// Rows or columns of 8 x 8 pixels that are on, two at a time.
data::DatasetPtr stripes(std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  const Tensor rows = bernoulli({1024, 8, 1}, 0.25), columns = bernoulli({1024, 1, 8}, 0.25);
  return std::make_shared<data::ArrayDataset>(
      data::Fields{reshape(maximum(rows, columns), {1024, 64})});
}

int main(int argc, char** argv) {
  const train::OwnJob own = train::join_job();
  train::TrainerOptions options{.global_batch = 64, .threads = argc > 2 ? std::atoi(argv[2]) : 1};
  options.fields = {train::input_and_label("image")};
  options.mode = own.mode.get();
  train::Trainer trainer(std::make_shared<Vae>(), negative_elbo,
                         optim::adam({.learning_rate = 0.005}), options);
  const train::FitResult result = trainer.fit(
      stripes(1), {.steps = argc > 1 ? std::atoll(argv[1]) : 500, .validation = stripes(2)});
  if (!own.is_first()) return 0;  // one speaks for all
  fmt::print("bound on images it has not seen: {:.4f}\n", result.validation.loss);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}
