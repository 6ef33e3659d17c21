// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/ops/fused.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Function = double (*)(double a, double b);

OpCase fused_case(const std::string& label, const std::string& program, const Shape& a,
                  const Shape& b, Function function) {
  OpCase row;
  row.op = "fused_elementwise";
  row.label = label;
  row.inputs = {random_tensor(a, 1), random_tensor(b, 2)};
  row.attrs = Attrs::of(FusedAttrs{program});
  row.reference = [function](const std::vector<Tensor>& in) {
    const bool single = in[1].numel() == 1;
    std::vector<double> x = in[0].to_vector<double>();
    const std::vector<double> y = in[1].to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = function(x[i], y[single ? 0 : i]);
    return std::vector<Tensor>{Tensor::from(x, in[0].shape())};
  };
  return row;
}

}  // namespace

std::vector<OpCase> fused_cases() {
  const Function chain = [](double a, double b) { return std::tanh(a + b) * b; };
  const Function leaky = [](double a, double b) {
    const double s = a - b;
    return s > 0 ? s : 0.25 * s;
  };
  return {
      fused_case("several tiles", "add(0,1) tanh(2) multiply(3,1)", {37, 61}, {37, 61}, chain),
      fused_case("single operand", "add(0,1) tanh(2) multiply(3,1)", {5, 7}, {}, chain),
      fused_case("size 0", "add(0,1) tanh(2) multiply(3,1)", {0, 4}, {0, 4}, chain),
      fused_case("parameter", "subtract(0,1) leaky_relu(2|0.25)", {1000}, {1000}, leaky),
  };
}

}  // namespace lockstep::testing
