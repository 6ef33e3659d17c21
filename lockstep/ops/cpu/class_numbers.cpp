// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/ops/cpu/loss.h"

namespace lockstep::kernels {
namespace {

constexpr double kMost = 0x1p53;  // from here on a float64 is not one number alone

template <class T>
void whole_numbers(const KernelCall& call) {
  const T* labels = call.inputs[0].as<const T>();
  auto* numbers = call.outputs[0].as<std::int64_t>();
  for (std::int64_t row = 0; row < call.inputs[0].numel(); ++row) {
    const auto label = static_cast<double>(labels[row]);
    if (!(std::abs(label) < kMost) || label != std::trunc(label))
      throw InvalidArgument("class_numbers: label {} of row {} is no class number",
                            std::isnan(label) ? std::abs(label) : label, row);
    numbers[row] = static_cast<std::int64_t>(label);
  }
}

}  // namespace

std::span<const KernelCandidate> class_numbers_kernels() {
  static constexpr KernelCandidate list[] = {
      {"float32", DTypeSet{DType::float32}, whole_numbers<float>},
      {"float64", DTypeSet{DType::float64}, whole_numbers<double>}};
  return list;
}

}  // namespace lockstep::kernels
