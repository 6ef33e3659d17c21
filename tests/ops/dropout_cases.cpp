// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/random_attrs.h"
#include "lockstep/ops/random_ops.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

OpCase dropped(const Shape& shape, double p) {
  const RandomKey key{11, 5, 2, 7};
  return {"dropout",
          fmt::format("p = {}", p),
          {random_tensor(shape, 3), random_key(11, 5, 2)},
          Attrs::of(DropoutAttrs{p, 7}),
          [=](const std::vector<Tensor>& in) {
            std::vector<double> y = in[0].to_vector<double>();
            for (std::size_t i = 0; i < y.size(); ++i)
              y[i] = random_bits(key, i) < p * 0x1p32 ? 0.0 : y[i] / (1.0 - p);
            return std::vector{Tensor::from(y, shape)};
          }};
}

}  // namespace

std::vector<OpCase> dropout_cases() {
  return {dropped({}, 0.25),  dropped({0, 3}, 0.5),  dropped({1}, 0.5),
          dropped({37}, 0.0), dropped({5, 31}, 0.3), dropped({2500}, 0.9)};
}

}  // namespace lockstep::testing
