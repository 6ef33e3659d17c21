// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/synthetic_ratings.h"

#include <algorithm>
#include <array>
#include <string>

#include "lockstep/tensor/philox.h"

namespace lockstep::recipes {
namespace {

constexpr std::uint64_t kSeed = 0x2EC5;
constexpr std::uint32_t kDraws = 200000;  // those of a pair that was drawn before are left out
constexpr std::size_t kRank = 4;
constexpr double kMean = 3.5, kUserBias = 0.3, kItemBias = 0.4, kTimeEffect = 0.15;
constexpr double kFactor = 0.55;             // of vectors: their products have a deviation of 0.6
constexpr std::uint64_t kHeadItems = 20;     // item r is rated as often as 1 / (r + this) says
constexpr std::int64_t kBegin = 1577836800;  // 2020, for two years
constexpr std::uint64_t kSpan = 2 * 365 * 86400;

enum Use : std::uint32_t { kUser, kItem, kWeekday, kHour, kPair, kNoise };

// Twelve uniform numbers have a sum of deviation 1 that is almost normal; whole numbers, so that it
// is the same on every machine.
double normal(const RandomKey& key, std::uint32_t place) {
  std::uint64_t sum = 0;
  for (std::uint32_t block = 0; block < 3; ++block)
    for (const std::uint32_t word : philox(key, 3 * place + block)) sum += word;
  return static_cast<double>(sum) * 0x1p-32 - 6.0;
}

double normal(Use use, std::int64_t number, std::uint32_t place) {
  return normal({kSeed, static_cast<std::uint32_t>(number), 0, use}, place);
}

std::uint64_t below(std::uint32_t bits, std::uint64_t bound) { return (bits * bound) >> 32; }

// A user's or an item's bias and vector.
struct Taste {
  double bias;
  std::array<double, kRank> vector;
};

std::vector<Taste> tastes(Use use, std::int64_t count, double deviation) {
  std::vector<Taste> all;
  for (std::int64_t i = 0; i < count; ++i) {
    Taste taste{deviation * normal(use, i, 0), {}};
    for (std::size_t k = 0; k < kRank; ++k)
      taste.vector[k] = kFactor * normal(use, i, static_cast<std::uint32_t>(k + 1));
    all.push_back(taste);
  }
  return all;
}

double product(const Taste& a, const Taste& b) {
  double sum = 0;
  for (std::size_t k = 0; k < kRank; ++k) sum += a.vector[k] * b.vector[k];
  return sum;
}

// Up to where the draws of each item go.
std::vector<std::uint64_t> popularity() {
  std::vector<std::uint64_t> ends;
  std::uint64_t end = 0;
  for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(kGeneratedItems); ++r)
    ends.push_back(end += (std::uint64_t{1} << 24) / (r + kHeadItems));
  return ends;
}

double time_effect(std::int64_t time) {
  return kTimeEffect * (normal(kWeekday, time / 86400 % 7, 0) + normal(kHour, time / 3600 % 24, 0));
}

data::IdList numbered(std::int64_t count) {
  data::IdList ids;
  for (std::int64_t i = 1; i <= count; ++i) ids.add(std::to_string(i));
  return ids;
}

}  // namespace

GeneratedRatings generate_ratings() {
  GeneratedRatings all;
  data::Ratings& ratings = all.ratings;
  ratings.users = numbered(kGeneratedUsers);
  ratings.items = numbered(kGeneratedItems);
  const std::vector<Taste> users = tastes(kUser, kGeneratedUsers, kUserBias);
  const std::vector<Taste> items = tastes(kItem, kGeneratedItems, kItemBias);
  const std::vector<std::uint64_t> ends = popularity();
  std::vector<bool> is_rated(static_cast<std::size_t>(kGeneratedUsers * kGeneratedItems));
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const std::array<std::uint32_t, 4> bits = philox({kSeed, i, 0, kPair}, 0);
    const std::uint64_t user = below(bits[0], kGeneratedUsers), draw = below(bits[1], ends.back());
    const auto item =
        static_cast<std::uint64_t>(std::upper_bound(ends.begin(), ends.end(), draw) - ends.begin());
    const std::size_t pair = user * kGeneratedItems + item;
    if (is_rated[pair]) continue;
    is_rated[pair] = true;
    const std::int64_t time = kBegin + static_cast<std::int64_t>(below(bits[2], kSpan));
    const double without_time =
        kMean + users[user].bias + items[item].bias + product(users[user], items[item]);
    const double expected = without_time + time_effect(time);
    ratings.user.push_back(static_cast<std::int64_t>(user));
    ratings.item.push_back(static_cast<std::int64_t>(item));
    ratings.time.push_back(time);
    ratings.value.push_back(static_cast<float>(expected + kRatingNoise * normal(kNoise, i, 0)));
    all.expected.push_back(static_cast<float>(expected));
    all.expected_without_time.push_back(static_cast<float>(without_time));
  }
  return all;
}

}  // namespace lockstep::recipes
