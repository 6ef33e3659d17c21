// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/op_cases.h"

#include "lockstep/tensor/philox.h"

namespace lockstep::testing {

Tensor random_tensor(const Shape& shape, std::uint64_t seed, double low, double high) {
  const RandomKey key{.seed = seed};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = low + (high - low) * unit_float(random_bits(key, i));
  return Tensor::from(values, shape);
}

Tensor random_indices(const Shape& shape, std::uint64_t seed, std::int64_t low, std::int64_t high) {
  const RandomKey key{.seed = seed, .use = 1};
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = low + static_cast<std::int64_t>(random_bits(key, i)) % (high - low);
  return Tensor::from(values, shape);
}

}  // namespace lockstep::testing
