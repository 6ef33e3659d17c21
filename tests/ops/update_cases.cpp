// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/catalogue.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

OpCase sgd_case(const Shape& shape, double momentum, double decay, double scale) {
  const std::string op = "sgd_momentum_update";
  const std::vector<AttrField> fields{{"momentum", momentum}, {"decay", decay}, {"scale", scale}};
  return {.op = op,
          .label = shape.str(),
          .inputs = {random_tensor(shape, 31), random_tensor(shape, 32), random_tensor(shape, 33),
                     Tensor::scalar(0.125, DType::float64)},
          .attrs = get_op(op).schema.make(op, fields),
          .reference = [=](const Tensors& in) {
            std::vector<double> w = in[0].to_vector<double>();
            const std::vector<double> g = in[1].to_vector<double>();
            std::vector<double> m = in[2].to_vector<double>();
            const double rate = in[3].item();
            for (std::size_t i = 0; i < w.size(); ++i) {
              m[i] = momentum * m[i] - rate * (scale * g[i] + decay * w[i]);
              w[i] += m[i];
            }
            return Tensors{Tensor::from(w, in[0].shape()), Tensor::from(m, in[0].shape())};
          }};
}

}  // namespace

std::vector<OpCase> update_cases() {
  return {sgd_case({4, 5}, 0.9, 0.0, 1.0), sgd_case({1003}, 0.9, 1e-2, 0.5),
          sgd_case({}, 0.0, 0.1, 1.0), sgd_case({0, 3}, 0.9, 0.0, 1.0)};
}

}  // namespace lockstep::testing
