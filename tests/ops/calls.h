// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ops/op.h"
#include "tests/message.h"

namespace lockstep::testing {

// random_tensor as float32.
Tensor random_floats(const Shape& shape, std::uint64_t seed, double low = -1.0, double high = 1.0);
void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-4);

// The op by name, with the attributes that are given and the others' defaults.
Attrs attrs_of(std::string_view op, const std::vector<AttrField>& fields);
std::vector<Tensor> call(std::string_view op, const std::vector<Tensor>& inputs,
                         const std::vector<AttrField>& fields = {});

// [N, C, H, W] with 16 channels side by side.
Layout blocked_by_16(const Shape& shape);
// As many channels side by side as oneDNN's own kernels have with the instruction set in use.
Layout blocked_by_vectors(const Shape& shape);

}  // namespace lockstep::testing
