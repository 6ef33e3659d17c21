// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/ops/random_attrs.h"
#include "lockstep/ops/random_ops.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

const RandomKey kKey{(std::uint64_t{9} << 40) + 3, 4, 1, 6};
const std::vector<Shape> kShapes{{}, {0}, {1}, {37}, {3, 5, 7}, {2051}};

using F = std::function<double(std::uint64_t)>;

OpCase drawn(const std::string& op, const Shape& shape, DType dtype, const Attrs& attrs,
             const F& f) {
  return {op,
          std::string(name_of(dtype)),
          {random_key(kKey.seed, kKey.step, kKey.shard)},
          attrs,
          [=](const std::vector<Tensor>&) {
            std::vector<double> values;
            for (std::int64_t i = 0; i < shape.numel(); ++i)
              values.push_back(f(static_cast<std::uint64_t>(i)));
            const Tensor result = Tensor::empty(shape, dtype);
            result.assign(Tensor::from(values, shape));
            return std::vector{result};
          }};
}

int unit_bits(DType dtype) {
  switch (dtype) {
    case DType::float64: return 53;
    case DType::float32: return 24;
    case DType::float16: return 11;
    default: return 8;
  }
}

double uniform_at(DType dtype, std::uint64_t i) {
  const int bits = unit_bits(dtype);
  if (dtype == DType::float64) {
    const std::uint64_t low = random_bits(kKey, 2 * i), high = random_bits(kKey, 2 * i + 1);
    return -2.0 + 4.0 * std::ldexp(static_cast<double>((high << 32 | low) >> (64 - bits)), -bits);
  }
  return -2.0 + 4.0 * std::ldexp(random_bits(kKey, i) >> (32 - bits), -bits);
}

double normal_at(std::uint64_t i) {
  const double u = (random_bits(kKey, i & ~1ull) + 1.0) * 0x1p-32;
  const double angle = 2.0 * std::numbers::pi * random_bits(kKey, i | 1ull) * 0x1p-32;
  return 1.5 + 0.5 * std::sqrt(-2.0 * std::log(u)) * (i & 1 ? std::sin(angle) : std::cos(angle));
}

std::uint64_t below(std::uint64_t range, std::uint64_t i) {
  const std::uint64_t low = random_bits(kKey, 2 * i), high = random_bits(kKey, 2 * i + 1);
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(high << 32 | low) * range) >>
                                    64);
}

OpCase shuffled(std::int64_t n) {
  return {"permutation",
          "",
          {random_key(kKey.seed, kKey.step, kKey.shard)},
          Attrs::of(PermutationAttrs{n, kKey.use}),
          [n](const std::vector<Tensor>&) {
            std::vector<std::int64_t> order;
            for (std::int64_t i = 0; i < n; ++i) {
              const std::uint64_t to =
                  below(static_cast<std::uint64_t>(i) + 1, static_cast<std::uint64_t>(i));
              order.push_back(i);
              std::swap(order[static_cast<std::size_t>(i)], order[to]);
            }
            return std::vector{Tensor::from(order, {n})};
          }};
}

// Of draw i: 53 random bits.
double unit_at(std::uint64_t i) { return (uniform_at(DType::float64, i) + 2.0) / 4.0; }

// The class whose part of the sum of weights the draw's number falls in.
std::int64_t class_at(const std::vector<double>& weights, double part) {
  double sum = 0.0, total = 0.0;
  for (double w : weights) total += w;
  std::int64_t place = -1;
  while (sum <= part * total) sum += weights[static_cast<std::size_t>(++place)];
  return place;
}

// One after the other, each among those that are left: the class with the smallest of the times
// -log(u) / weight comes first.
std::vector<std::int64_t> race(const std::vector<double>& weights, std::size_t first,
                               std::int64_t count) {
  std::vector<std::pair<double, std::int64_t>> times;
  for (std::size_t c = 0; c < weights.size(); ++c)
    times.emplace_back(-std::log(unit_at(first + c) + 0x1p-54) / weights[c],
                       static_cast<std::int64_t>(c));
  std::sort(times.begin(), times.end());
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < count; ++i)
    order.push_back(times[static_cast<std::size_t>(i)].second);
  return order;
}

OpCase classes(const Shape& lead, std::int64_t count, bool replacement) {
  Shape shape = lead, out = lead;
  shape.push_back(7);
  out.push_back(count);
  return {
      .op = "categorical",
      .label = out.str(),
      .inputs = {random_tensor(shape, 3, -2.0, 2.0), random_key(kKey.seed, kKey.step, kKey.shard)},
      .attrs = Attrs::of(CategoricalAttrs{count, replacement, kKey.use}),
      .reference = [=](const std::vector<Tensor>& in) {
        const std::vector<double> logits = in[0].to_vector<double>();
        std::vector<std::int64_t> drawn;
        for (std::size_t row = 0; row < logits.size(); row += 7) {
          std::vector<double> weights;
          for (std::size_t c = 0; c < 7; ++c) weights.push_back(std::exp(logits[row + c]));
          for (std::int64_t i = 0; replacement && i < count; ++i)
            drawn.push_back(class_at(weights, unit_at(drawn.size())));
          if (replacement) continue;
          for (std::int64_t c : race(weights, row, count)) drawn.push_back(c);
        }
        return std::vector{Tensor::from(drawn, out)};
      }};
}

}  // namespace

std::vector<OpCase> random_cases() {
  std::vector<OpCase> rows;
  const std::int64_t use = kKey.use;
  for (const Shape& shape : kShapes) {
    for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
      // The range is a power of two, so that nothing is rounded.
      rows.push_back(drawn("uniform", shape, dtype,
                           Attrs::of(UniformAttrs{shape.vector(), -2.0, 2.0, dtype, use}),
                           [=](std::uint64_t i) { return uniform_at(dtype, i); }));
      rows.push_back(drawn("normal", shape, dtype,
                           Attrs::of(NormalAttrs{shape.vector(), 1.5, 0.5, dtype, use}),
                           normal_at));
      // The others are made in float32: see RandomTest.
      if (dtype != DType::float64) rows.back().reference = nullptr;
    }
    for (DType dtype : {DType::float32, DType::boolean, DType::int8, DType::int16})
      rows.push_back(drawn("bernoulli", shape, dtype,
                           Attrs::of(BernoulliAttrs{shape.vector(), 0.3, dtype, use}),
                           [](std::uint64_t i) { return random_bits(kKey, i) < 0.3 * 0x1p32; }));
    for (DType dtype : {DType::int64, DType::int32, DType::int16, DType::int8})
      rows.push_back(drawn("randint", shape, dtype,
                           Attrs::of(RandintAttrs{shape.vector(), -20, 100, dtype, use}),
                           [](std::uint64_t i) { return -20.0 + below(120, i); }));
  }
  for (std::int64_t n : {0, 1, 2, 37, 1500}) rows.push_back(shuffled(n));
  for (const Shape& lead : {Shape{}, Shape{0}, Shape{3}, Shape{2, 5}}) {
    for (std::int64_t count : {0, 1, 40}) rows.push_back(classes(lead, count, true));
    for (std::int64_t count : {0, 1, 4, 7}) rows.push_back(classes(lead, count, false));
  }
  return rows;
}

}  // namespace lockstep::testing
