// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/recommenders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/unary.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/recipes/synthetic_ratings.h"

namespace lockstep::recipes {
namespace {

nn::BlockPtr factors(const RatingSizes& sizes) {
  return nn::models::matrix_factorization(
      {.users = sizes.users, .items = sizes.items, .mean = sizes.mean, .sparse_grad = true});
}

train::LossFunction squared_error() {
  return [](const Tensor& rating, const Tensor& label) { return square(rating - label); };
}

}  // namespace

Recipe recsys_mf() {
  return {.name = "recsys-mf",
          .summary = "ratings of items by users: matrix factorisation",
          .dataset = "synthetic",
          .task = Task::ratings,
          .global_batch = 512,
          .epochs = 8,
          .bench_batch = 512,
          .learning = {.optimizer = "adam",
                       .learning_rate = 5e-3,
                       .parameters = {{"wd", 1e-4}},
                       .warm_up = 0.02},
          .loss = squared_error,
          .metric = {"rmse", false},
          .sample_fields = {{train::input("user"), {}, DType::int64, kGeneratedUsers},
                            {train::input("item"), {}, DType::int64, kGeneratedItems},
                            {train::label("rating")}},
          .recommender = factors,
          .sizes = {kGeneratedUsers, kGeneratedItems}};
}

}  // namespace lockstep::recipes
