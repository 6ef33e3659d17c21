// SPDX-License-Identifier: Apache-2.0
// Handwritten digits with nothing but tensors, ops and the tape: every step of learning is visible.
//
//   mnist_by_hand [FOLDER|synthetic] [STEPS]        mnist_by_hand $(lockstep data get mnist)
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>

#include "lockstep/autograd/autograd.h"
#include "lockstep/data/sampler.h"
#include "lockstep/ops/ops.h"
#include "lockstep/recipes/recipe_data.h"

using namespace lockstep;

namespace {

constexpr std::int64_t kBatch = 100;
constexpr double kLearningRate = 0.1;

// A dense layer is two tensors. attach_grad says that we want to learn them.
struct Layer {
  Tensor weight, bias;

  Layer(std::int64_t inputs, std::int64_t outputs)
      : weight(normal({outputs, inputs}, 0.0, 1.0 / std::sqrt(static_cast<double>(inputs)))),
        bias(Tensor::zeros({outputs})) {
    autograd::attach_grad(weight);
    autograd::attach_grad(bias);
  }
  Tensor operator()(const Tensor& x) const { return dense(x, weight, bias); }
  // One step down the slope, in place.
  void learn() const {
    for (const Tensor& t : {weight, bias}) t.assign(t - autograd::gradient(t) * kLearningRate);
  }
};

struct Net {
  Layer hidden{784, 128}, output{128, 10};
  Tensor operator()(const Tensor& x) const { return output(relu(hidden(x))); }
};

// Pixels of 0 to 255 become rows of numbers between 0 and 1.
Tensor rows(const Tensor& images) {
  return reshape(cast(images, DType::float32), {-1, 784}) / 255.0;
}

double accuracy(const Net& net, const data::Dataset& set) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(set.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const data::Fields batch = set.batch(all);
  const Tensor right = equal(argmax(net(rows(batch[0]))), batch[1]);
  return mean(cast(right, DType::float32)).item();
}

}  // namespace

int main(int argc, char** argv) {
  const recipes::RecipeData digits = recipes::open_data(
      recipes::find_recipe("mnist-mlp"), {.place = argc > 1 ? argv[1] : "synthetic"});
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 3000;

  // What is drawn depends on this key, never on what was drawn before.
  const RandomScope random(random_key(/*seed=*/1));
  const Net net;
  data::ShardSampler batches(data::random_sampler(digits.train->size(), /*seed=*/1), kBatch, 1);
  for (std::int64_t step = 0; step < steps; ++step) {
    const data::Fields batch = digits.train->batch(batches.samples(step, 0));
    Tensor loss;
    {
      const autograd::RecordScope record;
      loss = mean(softmax_cross_entropy(net(rows(batch[0])), batch[1]));
    }
    autograd::backward(loss);
    net.hidden.learn();
    net.output.learn();
    if (step % 100 == 0) fmt::print("step {:5}  loss {:.4f}\n", step, loss.item());
  }
  fmt::print("accuracy on digits it has not seen: {:.4f}\n", accuracy(net, *digits.test));
}
