// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/recommend.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/recipes/recommend.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using recipes::Score;

// Ids are any bytes.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_items(const std::string& user, const std::vector<Score>& scores, const char* kind,
                 bool json) {
  if (json) {
    Json row{{"user", user}, {"items", Json::array()}};
    for (const Score& score : scores)
      row["items"].push_back({{"item", score.item}, {"score", score.value}});
    fmt::print("{}", line_of(row));
    return;
  }
  std::size_t width = 4;
  for (const Score& score : scores) width = std::max(width, score.item.size());
  fmt::print("{:<{}}  {}\n", "item", width, kind);
  for (const Score& score : scores) fmt::print("{:<{}}  {:.4f}\n", score.item, width, score.value);
}

void print_pairs(const std::vector<Score>& scores, const char* kind, bool json) {
  if (!json) fmt::print("user\titem\t{}\n", kind);
  for (const Score& score : scores) {
    if (json)
      fmt::print("{}",
                 line_of({{"user", score.user}, {"item", score.item}, {"score", score.value}}));
    else
      fmt::print("{}\t{}\t{:.4f}\n", score.user, score.item, score.value);
  }
}

void check_question(const recipes::TrainedModel& model, const Recommendations& options,
                    const std::vector<std::string>& files) {
  if (options.user.empty() == files.empty())
    throw WrongUsage(
        fmt::format("predict: {} recommends: give --user ID, or files of users and "
                    "items",
                    model.recipe.name));
}

}  // namespace

void add_recommending(CLI::App& command, Recommendations& options) {
  constexpr const char* kRecommending = "Recommending (recsys-mf, recsys-dlrm)";
  add(command, kRecommending, "--user", options.user, "ID",
      "The best items for this user, without those that the user has rated");
  command.add_flag("--all", options.all, "Those too")->group(kRecommending);
}

int recommend(const recipes::TrainedModel& model, const Recommendations& options,
              const std::vector<std::string>& files, std::optional<std::int64_t> top, bool json) {
  check_question(model, options, files);
  const char* kind = recipes::score_name(model.recipe);
  if (!options.user.empty())
    print_items(
        options.user,
        recipes::recommend(model, options.user, {.top = top.value_or(10), .all = options.all}),
        kind, json);
  for (const std::string& file : files) print_pairs(recipes::score_pairs(model, file), kind, json);
  return 0;
}

}  // namespace lockstep::cli
