// SPDX-License-Identifier: Apache-2.0
// A recommender of two inputs: a tower for users, one for items, and a loss on their product.
//
//   two_towers [STEPS] [THREADS]        lockstep launch --workers 2 -- two_towers
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"

using namespace lockstep;

constexpr std::int64_t kUsers = 60, kItems = 80, kPairs = 4096;

nn::BlockPtr tower(std::int64_t rows) {
  return nn::sequential(nn::embedding(rows, 16), nn::dense(32, {.activation = "relu"}),
                        nn::dense(8));
}

class TwoTowers : public nn::Block {
 public:
  TwoTowers() : user_(add_child("user", tower(kUsers))), item_(add_child("item", tower(kItems))) {}
  train::Tensors forward_all(const train::Tensors& ids) override {
    return {sum((*user_)(ids.at(0)) * (*item_)(ids.at(1)), {1})};
  }

 private:
  nn::BlockPtr user_, item_;
};

// Users like the items of their own taste, one of four.
data::DatasetPtr likes(std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  const Tensor user = randint(0, kUsers, {kPairs}), item = randint(0, kItems, {kPairs});
  Tensor liked = Tensor::zeros({kPairs});
  for (std::int64_t i = 0; i < kPairs; ++i)
    liked.data<float>()[i] =
        user.data<std::int64_t>()[i] % 4 == item.data<std::int64_t>()[i] % 4 ? 1.0F : 0.0F;
  return std::make_shared<data::ArrayDataset>(data::Fields{user, item, liked});
}

int main(int argc, char** argv) {
  const train::OwnJob own = train::join_job();
  train::TrainerOptions options{.global_batch = 128, .threads = argc > 2 ? std::atoi(argv[2]) : 1};
  options.fields = {train::input("user"), train::input("item"), train::label("liked")};
  options.mode = own.mode.get();
  train::Trainer trainer(std::make_shared<TwoTowers>(), nn::SigmoidBinaryCrossEntropyLoss(),
                         optim::adam({.learning_rate = 0.01}), options);
  const train::FitResult result = trainer.fit(
      likes(1), {.steps = argc > 1 ? std::atoll(argv[1]) : 400, .validation = likes(2)});
  if (!own.is_first()) return 0;  // one speaks for all
  fmt::print("pairs told right that it has not seen: {:.4f}\n", result.validation.accuracy);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}
