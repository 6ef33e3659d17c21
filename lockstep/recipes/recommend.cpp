// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/recommend.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/ops/unary.h"
#include "lockstep/recipes/rating_features.h"

namespace lockstep::recipes {
namespace {

constexpr std::size_t kBatch = 8192;

std::vector<float> score_batch(const TrainedModel& model, std::span<const RatedPair> pairs) {
  RatingInputs inputs(model.recipe.task, *model.ratings, pairs.size());
  for (const RatedPair& pair : pairs) inputs.add(pair);
  const Tensor scores = (*model.net)(inputs.fields()).at(0);
  return (model.recipe.task == Task::clicks ? sigmoid(scores) : scores).to_vector<float>();
}

std::vector<float> score(const TrainedModel& model, std::span<const RatedPair> pairs) {
  std::vector<float> scores;
  for (std::size_t first = 0; first < pairs.size(); first += kBatch) {
    const std::vector<float> batch =
        score_batch(model, pairs.subspan(first, std::min(kBatch, pairs.size() - first)));
    scores.insert(scores.end(), batch.begin(), batch.end());
  }
  return scores;
}

// As if it were asked at the end of the time that was trained on.
RatedPair pair_now(const RatingTable& table, std::int64_t user, std::int64_t item) {
  RatedPair pair{user, item};
  if (table.has_time) pair.time = table.last_time;
  return pair;
}

std::vector<RatedPair> candidates(const RatingTable& table, std::int64_t user, bool all) {
  const std::span<const std::int64_t> rated = table.rated_by(user);
  std::vector<RatedPair> pairs;
  for (std::int64_t item = 0; item < table.items.size(); ++item)
    if (all || !std::binary_search(rated.begin(), rated.end(), item))
      pairs.push_back(pair_now(table, user, item));
  return pairs;
}

}  // namespace

const char* score_name(const Recipe& recipe) {
  return recipe.task == Task::clicks ? "click" : "rating";
}

std::vector<Score> recommend(const TrainedModel& model, const std::string& user,
                             const RecommendOptions& options) {
  const RatingTable& table = *model.ratings;
  const std::optional<std::int64_t> number = table.users.find(user);
  if (!number)
    throw NotFound("user '{}' is none of the {} that the run was trained on", user,
                   table.users.size());
  const std::vector<RatedPair> pairs = candidates(table, *number, options.all);
  if (pairs.empty())
    throw InvalidArgument("user '{}' has rated every item: --all recommends those too", user);
  const std::vector<float> scores = score(model, pairs);
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(options.top)));
  std::vector<Score> best;
  for (const std::size_t i : order)
    best.push_back({user, table.items.name(pairs[i].item), static_cast<double>(scores[i])});
  return best;
}

std::vector<Score> score_pairs(const TrainedModel& model, const std::string& file) {
  const RatingTable& table = *model.ratings;
  const data::Ratings asked = data::read_ratings(file, {.max_inflated = model.config.max_inflated,
                                                        .ratings = false,
                                                        .users = &table.users,
                                                        .items = &table.items});
  std::vector<RatedPair> pairs;
  for (std::size_t i = 0; i < asked.size(); ++i)
    pairs.push_back(pair_now(table, asked.user[i], asked.item[i]));
  const std::vector<float> scores = score(model, pairs);
  std::vector<Score> result;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    result.push_back({table.users.name(pairs[i].user), table.items.name(pairs[i].item),
                      static_cast<double>(scores[i])});
  return result;
}

}  // namespace lockstep::recipes
