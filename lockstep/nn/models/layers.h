// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/models/recipes.h"
#include "lockstep/ops/conv.h"

// The layers that the recipes are made of: parameters by name, then the op.
namespace lockstep::layers {

// Weights and bias start uniform in 1 / sqrt(inputs of a unit).
Tensor dense(ParameterSource& parameters, const std::string& name, const Tensor& x,
             std::int64_t units, bool flatten = true);
Tensor conv(ParameterSource& parameters, const std::string& name, const Tensor& x,
            std::int64_t channels, std::int64_t kernel, std::int64_t stride = 1, bool bias = true);
Tensor batch_norm(ParameterSource& parameters, const std::string& name, const Tensor& x);
Tensor layer_norm(ParameterSource& parameters, const std::string& name, const Tensor& x);
Tensor embedding(ParameterSource& parameters, const std::string& name, const Tensor& indices,
                 std::int64_t rows, std::int64_t width);
// One layer, one direction; x [T, N, I]. Returns the last hidden state [N, H].
Tensor lstm_last(ParameterSource& parameters, const std::string& name, const Tensor& x,
                 std::int64_t hidden);

}  // namespace lockstep::layers
