// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

// Tensors of a file under the names that the parameters have, where another framework calls the
// same thing otherwise: PyTorch's `bn1.weight` is `bn1.gamma`, its `weight_ih_l0` our
// `l0_i2h_weight`; a wrapper's `module.` and MXNet's `arg:` and `aux:` are taken off, and batch
// norm's counter, which nothing reads, is left out. docs/files.md has the table. A name that a
// parameter has already always means that one.
std::vector<std::pair<std::string, Tensor>> with_own_names(
    const std::vector<NamedParameter>& parameters,
    std::vector<std::pair<std::string, Tensor>> tensors);

}  // namespace lockstep::nn
