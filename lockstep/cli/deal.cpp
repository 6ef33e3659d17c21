// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <numeric>
#include <sstream>

#include "lockstep/cli/command.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kFixed = "fixed:";

[[noreturn]] void refuse(const std::string& text) {
  throw WrongUsage(
      fmt::format("--deal {}: expected even, speed, or fixed: and the shards of each worker, as "
                  "fixed:3,3,2",
                  text));
}

std::int64_t share_in(const std::string& word, const std::string& text) {
  std::int64_t share = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), share);
  if (error != std::errc() || end != word.data() + word.size() || share < 1) refuse(text);
  return share;
}

}  // namespace

Deal Deal::parse(const std::string& text) {
  if (text == "even") return {};
  if (text == "speed") return {Kind::speed};
  if (!text.starts_with(kFixed)) refuse(text);
  Deal deal{Kind::fixed};
  std::istringstream words(text.substr(kFixed.size()));
  for (std::string word; std::getline(words, word, ',');)
    deal.shares.push_back(share_in(word, text));
  if (deal.shares.empty()) refuse(text);
  return deal;
}

std::string Deal::str() const {
  if (kind == Kind::fixed) return fmt::format("{}{}", kFixed, fmt::join(shares, ","));
  return kind == Kind::speed ? "speed" : "even";
}

Membership Deal::of(const Membership& workers) const {
  const bool fits = std::ssize(shares) == workers.count(Role::worker);
  return kind == Kind::fixed && fits ? workers.weighted(shares) : workers;
}

void check_deal(const Deal& deal, const recipes::RunConfig& config, std::int64_t workers) {
  if (deal.kind == Deal::Kind::even) return;
  const std::string name = deal.kind == Deal::Kind::speed ? "--deal speed" : "--deal fixed";
  if (!recipes::is_invariant(config))
    throw WrongUsage(
        fmt::format("{}: expected gradients that are added in the canonical order (--kvstore "
                    "allreduce or ps_sync, no --compression, --algorithm tree)",
                    name));
  if (deal.kind != Deal::Kind::fixed) return;
  const std::int64_t sum = std::accumulate(deal.shares.begin(), deal.shares.end(), std::int64_t{0});
  if (std::ssize(deal.shares) != workers || sum != config.shards)
    throw WrongUsage(fmt::format(
        "--deal fixed: has {} shards for {} workers, expected the job's {} shards for its {}", sum,
        deal.shares.size(), config.shards, workers));
}

}  // namespace lockstep::cli
