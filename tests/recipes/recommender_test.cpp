// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/file.h"
#include "lockstep/nn/metric_auc.h"
#include "lockstep/recipes/rating_data.h"
#include "lockstep/recipes/recommend.h"
#include "lockstep/recipes/synthetic_ratings.h"
#include "lockstep/train/trainer.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::recipes {
namespace {

using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;

struct Trained {
  TrainedModel model;
  train::FitResult result;
};

Trained train(const std::string& name, std::int64_t epochs, const DataSource& source = {}) {
  Recipe recipe = find_recipe(name);
  const RecipeData data = open_data(recipe, source);
  recipe = with_ratings(recipe, data.ratings);
  train::TrainerOptions options{.global_batch = recipe.global_batch, .shards = recipe.shards};
  options.fields = recipe.roles();
  const std::int64_t steps = epochs * (data.train->size() / recipe.global_batch);
  const nn::BlockPtr net = recipe.net();
  train::Trainer trainer(net, recipe.loss(), make_optimizer(recipe.learning), options);
  const train::FitResult result =
      trainer.fit(data.train, {.epochs = epochs,
                               .schedule = make_schedule(recipe.learning, steps),
                               .validation = data.test,
                               .metrics = recipe.metrics(),
                               .evaluate_every = 1 << 30});
  return {{default_config(recipe),
           recipe,
           net,
           {},
           data.ratings,
           {},
           result.steps,
           result.params_sha256},
          result};
}

// What the best possible net reaches on the ratings that are held out.
double best_rmse() {
  const GeneratedRatings all = generate_ratings();
  const std::vector<bool> held_out = held_out_ratings(all.ratings, "pairs", "generated");
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < held_out.size(); ++i) {
    if (!held_out[i]) continue;
    sum += std::pow(all.ratings.value[i] - all.expected_without_time[i], 2);
    count += 1;
  }
  return std::sqrt(sum / count);
}

double best_auc() {
  const GeneratedRatings all = generate_ratings();
  const std::vector<bool> held_out = held_out_ratings(all.ratings, "pairs", "generated");
  const RatingTable table = make_rating_table(all.ratings, held_out);
  std::vector<float> clicks, scores;
  for (std::size_t i = 0; i < held_out.size(); ++i) {
    if (!held_out[i]) continue;
    clicks.push_back(table.is_click(all.ratings.value[i]) ? 1.0F : 0.0F);
    scores.push_back(all.expected[i]);
  }
  nn::AUC auc;
  const Shape shape{static_cast<std::int64_t>(clicks.size())};
  auc.update(Tensor::from(clicks, shape), Tensor::from(scores, shape));
  return auc.get().second;
}

double metric_of(const train::FitResult& result, const std::string& name) {
  for (const auto& [key, value] : result.validation.metrics)
    if (key == name) return value;
  ADD_FAILURE() << name;
  return 0;
}

TEST(Recommender, RatingsAreToldAlmostAsWellAsTheyCanBe) {
  const Recipe& recipe = find_recipe("recsys-mf");
  const double best = best_rmse();
  EXPECT_NEAR(best, 0.543, 0.02);  // the noise, and the effect of the time
  const train::FitResult result = train("recsys-mf", recipe.epochs).result;
  const double reached = metric_of(result, "rmse");
  EXPECT_LT(reached, 1.05 * best);
  EXPECT_GT(reached, best);
  EXPECT_NEAR(reached, std::sqrt(result.validation.loss), 1e-6);
}

TEST(Recommender, ClicksAreToldAlmostAsWellAsTheyCanBe) {
  const Recipe& recipe = find_recipe("recsys-dlrm");
  const double best = best_auc(),
               reached = metric_of(train("recsys-dlrm", recipe.epochs).result, "auc");
  EXPECT_GT(reached, best - 0.03);  // without the products of user and item it is 0.77
  EXPECT_LT(reached, best);
}

class RecommendTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder("recommend");
    const std::string place = folder.path() + "/r.csv";
    std::string text;
    // Even users like even items.
    for (int user = 0; user < 40; ++user)
      for (int item = 0; item < 30; ++item)
        if ((user * 7 + item * 3) % 5 != 0)
          text += fmt::format("u{},i{},{}\n", user, item, (user + item) % 2 == 0 ? 5 : 1);
    write_file(place, text);
    trained_ = new Trained(train("recsys-mf", 400, {.place = place}));
  }
  static void TearDownTestSuite() { delete trained_; }
  static Trained* trained_;
};
Trained* RecommendTest::trained_ = nullptr;

TEST_F(RecommendTest, ItemsThatTheUserLikesAndHasNotRatedComeFirst) {
  const std::vector<Score> best = recommend(trained_->model, "u3", {.top = 3});
  ASSERT_EQ(best.size(), 3U);
  for (std::size_t i = 0; i < best.size(); ++i) {
    const int item = std::stoi(best[i].item.substr(1));
    EXPECT_EQ((3 * 7 + item * 3) % 5, 0) << best[i].item << " was rated";
    EXPECT_EQ(item % 2, 1) << best[i].item;
    EXPECT_GT(best[i].value, 3.5);
    EXPECT_GE(best[i == 0 ? 0 : i - 1].value, best[i].value);
  }
  EXPECT_EQ(recommend(trained_->model, "u3", {.top = 1000}).size(), 6U);
  EXPECT_EQ(recommend(trained_->model, "u3", {.top = 1000, .all = true}).size(), 30U);
}

TEST_F(RecommendTest, ScoresOfPairsAreThoseOfTheRecommendation) {
  const TemporaryFolder folder("pairs");
  const std::vector<Score> all = recommend(trained_->model, "u3", {.top = 30, .all = true});
  write_file(folder.path() + "/p.csv", "u3," + all[4].item + "\nu3," + all[20].item + "\n");
  const std::vector<Score> pairs = score_pairs(trained_->model, folder.path() + "/p.csv");
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_FLOAT_EQ(pairs[0].value, all[4].value);
  EXPECT_FLOAT_EQ(pairs[1].value, all[20].value);
  EXPECT_EQ(pairs[1].item, all[20].item);
}

TEST_F(RecommendTest, AUserWhoIsNotKnownIsNamed) {
  EXPECT_EQ(message_of<NotFound>([] { recommend(trained_->model, "42"); }),
            "user '42' is none of the 40 that the run was trained on");
}

}  // namespace
}  // namespace lockstep::recipes
