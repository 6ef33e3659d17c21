// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace

Histogram::Histogram() : counts_(limits().size()) {}

void Histogram::add(double value) {
  if (!std::isfinite(value)) return;
  const auto above = std::ranges::upper_bound(limits(), value);
  const std::size_t place = static_cast<std::size_t>(above - limits().begin());
  ++counts_[std::min(place, counts_.size() - 1)];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
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
