// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::observe {
namespace {

constexpr double kLeast = 1e-12, kMost = 1e20, kStep = 1.1;

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = kLeast; limit < kMost; limit *= kStep) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits(positive.rbegin(), positive.rend());
  for (double& limit : limits) limit = -limit;
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

const std::vector<double>& limits() {
  static const std::vector<double> all = make_limits();
  return all;
}

// The place of the first limit above a value, without a search. A cell has the doubles that share
// sign, exponent and four bits of the fraction: it is less than 10% wide, so that at most one limit
// lies in it. For each cell there is the place that its lowest value has.
class Places {
 public:
  Places() : places_(kCells) {
    for (std::size_t cell = 0; cell < kCells; ++cell) places_[cell] = search(lowest(cell));
  }

  std::size_t find(double value) const {
    const std::size_t place = places_[std::bit_cast<std::uint64_t>(value) >> kRest];
    return std::min(place + (limits_[place] <= value ? 1 : 0), limits_.size() - 1);
  }

 private:
  static constexpr int kRest = 48;  // bits of a double that are not of its cell
  static constexpr std::size_t kCells = std::size_t{1} << (64 - kRest);

  static double lowest(std::size_t cell) {
    const std::uint64_t first = static_cast<std::uint64_t>(cell) << kRest;
    const bool negative = cell >= kCells / 2;
    return std::bit_cast<double>(negative ? first | ((std::uint64_t{1} << kRest) - 1) : first);
  }
  std::uint16_t search(double value) const {
    if (!std::isfinite(value)) return 0;
    const auto above = std::ranges::upper_bound(limits_, value);
    const auto place = static_cast<std::size_t>(above - limits_.begin());
    return static_cast<std::uint16_t>(std::min(place, limits_.size() - 1));
  }

  const std::vector<double>& limits_ = limits();
  std::vector<std::uint16_t> places_;
};

const Places& places() {
  static const Places all;
  return all;
}

}  // namespace

Histogram::Histogram() : counts_(limits().size()) {}

void Histogram::add(double value) {
  if (!std::isfinite(value)) return;
  ++counts_[places().find(value)];
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += value;
  sum_squares_ += value * value;
  ++count_;
}

void Histogram::add(std::span<const float> values) {
  for (const float value : values) add(static_cast<double>(value));
}

std::vector<Histogram::Bucket> Histogram::buckets() const {
  std::vector<Bucket> found;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const Bucket bucket{limits()[i], static_cast<double>(counts_[i])};
    if (bucket.count == 0 && !found.empty() && found.back().count == 0)
      found.back().limit = bucket.limit;
    else
      found.push_back(bucket);
  }
  if (found.size() > 1 && found.back().count == 0) found.pop_back();
  return found;
}

}  // namespace lockstep::observe
