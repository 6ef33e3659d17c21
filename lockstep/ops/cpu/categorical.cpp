// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "lockstep/ops/cpu/random_ops.h"
#include "lockstep/ops/random_attrs.h"

namespace lockstep::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of draw `index`: 53 random bits, from 0 to below 1.
double unit_double(const RandomKey& key, std::uint64_t index) {
  const std::uint64_t low = random_bits(key, 2 * index);
  const std::uint64_t high = random_bits(key, 2 * index + 1);
  return static_cast<double>((high << 32 | low) >> 11) * 0x1p-53;
}

// One row of logits, in double. It must have a class that can be drawn, and no NaN.
struct Row {
  std::vector<double> logits;
  double largest = -kInfinity;
  std::int64_t possible = 0;  // classes of a probability above 0

  template <class T>
  Row(const T* from, std::int64_t classes, std::int64_t number) : logits(from, from + classes) {
    bool valid = true;
    for (double logit : logits) {
      valid = valid && !std::isnan(logit) && logit != kInfinity;
      largest = std::max(largest, logit);
      possible += logit > -kInfinity;
    }
    if (!valid || possible == 0)
      throw InvalidArgument("categorical: row {} gives no probabilities: {}", number,
                            valid ? "every class has probability 0" : "a logit is NaN or infinite");
  }
};

// Each draw has a random number, and takes the class whose part of the sum of weights it falls in.
void draw_with_replacement(const Row& row, const RandomKey& key, std::uint64_t first,
                           std::span<std::int64_t> out) {
  std::vector<double> sums(row.logits.size());
  double total = 0.0;
  for (std::size_t c = 0; c < sums.size(); ++c)
    sums[c] = total += std::exp(row.logits[c] - row.largest);
  const auto end = std::lower_bound(sums.begin(), sums.end(), total);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto part = std::upper_bound(sums.begin(), end, unit_double(key, first + i) * total);
    out[i] = part - sums.begin();
  }
}

// Each class has a random number. The classes with the largest logit + Gumbel noise are those that
// draws one after the other would give, in their order.
void draw_without_replacement(const Row& row, const RandomKey& key, std::uint64_t first,
                              std::span<std::int64_t> out) {
  std::vector<double> scores(row.logits.size());
  for (std::size_t c = 0; c < scores.size(); ++c) {
    const double u = unit_double(key, first + c) + 0x1p-54;
    scores[c] = row.logits[c] - std::log(-std::log(u));
  }
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  std::copy_n(order.begin(), out.size(), out.begin());
}

template <class T>
void run_categorical(const KernelCall& call) {
  const auto& attrs = call.attrs.as<CategoricalAttrs>();
  const RandomKey key = key_from(call.inputs[1], attrs.use);
  const TensorView& logits = call.inputs[0];
  const std::int64_t classes = logits.shape.back();
  const std::int64_t rows = logits.numel() / classes;
  const T* from = logits.as<T>();
  std::int64_t* out = call.outputs[0].as<std::int64_t>();
  for (std::int64_t r = 0; r < rows; ++r, from += classes, out += attrs.count) {
    const Row row(from, classes, r);
    const std::span<std::int64_t> drawn(out, static_cast<std::size_t>(attrs.count));
    if (attrs.replacement) {
      draw_with_replacement(row, key, static_cast<std::uint64_t>(r * attrs.count), drawn);
      continue;
    }
    if (row.possible < attrs.count)
      throw InvalidArgument(
          "categorical: row {} has {} classes of a probability above 0, {} are "
          "drawn without replacement",
          r, row.possible, attrs.count);
    draw_without_replacement(row, key, static_cast<std::uint64_t>(r * classes), drawn);
  }
}

}  // namespace

std::span<const KernelCandidate> categorical_kernels() {
  static constexpr KernelCandidate list[] = {{"philox", {DType::float32}, run_categorical<float>},
                                             {"philox", {DType::float64}, run_categorical<double>}};
  return list;
}

}  // namespace lockstep::kernels
