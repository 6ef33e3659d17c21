// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/recommenders.h"
#include "lockstep/ops/loss.h"
#include "lockstep/recipes/rating_features.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/recipes/synthetic_ratings.h"

namespace lockstep::recipes {
namespace {

nn::BlockPtr dlrm(const RatingSizes& sizes) {
  return nn::models::dlrm({.rows = {sizes.users, sizes.items, kWeekdays, kHours},
                           .width = 8,
                           .bottom = {32},
                           .top = {32, 16},
                           .sparse_grad = true});
}

train::LossFunction click_loss() {
  return
      [](const Tensor& score, const Tensor& click) { return sigmoid_cross_entropy(score, click); };
}

}  // namespace

Recipe recsys_dlrm() {
  return {.name = "recsys-dlrm",
          .summary = "what a user clicks: features, four embeddings, their products",
          .dataset = "synthetic",
          .task = Task::clicks,
          .global_batch = 512,
          .epochs = 5,
          .bench_batch = 512,
          .learning = {.optimizer = "adam",
                       .learning_rate = 1e-2,
                       .parameters = {{"wd", 5e-5}},
                       .warm_up = 0.02},
          .loss = click_loss,
          .metric = {"auc", true},
          .sample_fields = {{train::input("features"), {kRatingFeatures}},
                            {train::input("user"), {}, DType::int64, kGeneratedUsers},
                            {train::input("item"), {}, DType::int64, kGeneratedItems},
                            {train::input("weekday"), {}, DType::int64, kWeekdays},
                            {train::input("hour"), {}, DType::int64, kHours},
                            {train::label("click"), {}, DType::float32, 2}},
          .recommender = dlrm,
          .sizes = {kGeneratedUsers, kGeneratedItems}};
}

}  // namespace lockstep::recipes
