// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/io/tensor_file.h"

namespace lockstep::train {

// The parameters that are at a place: a run's folder or a folder of checkpoints (the newest good
// one; `warn` is told of others), a checkpoint, or a file of tensors of any format. Throws
// NotFound, IoError, Corrupt.
std::vector<io::NamedTensor> load_parameters(
    const std::string& place, std::optional<io::FileFormat> format = {},
    const io::ReadOptions& options = {}, const std::function<void(const std::string&)>& warn = {});

}  // namespace lockstep::train
