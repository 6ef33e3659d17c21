// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace lockstep::observe {

// Counts in TensorBoard's buckets: 10% wide from 1e-12 to 1e20, the same below zero. Values that
// are not finite are left out.
class Histogram {
 public:
  Histogram();
  void add(double value);
  void add(std::span<const float> values);

  std::int64_t count() const { return count_; }
  double min() const { return count_ == 0 ? 0 : min_; }
  double max() const { return count_ == 0 ? 0 : max_; }
  double sum() const { return sum_; }
  double sum_squares() const { return sum_squares_; }

  struct Bucket {
    double limit = 0;  // upper end, which is not in it
    double count = 0;
  };
  // A run of empty ones is one bucket; the last has a value, where there is any.
  std::vector<Bucket> buckets() const;

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  double min_ = std::numeric_limits<double>::infinity(), max_ = -min_;
  double sum_ = 0, sum_squares_ = 0;
};

}  // namespace lockstep::observe
