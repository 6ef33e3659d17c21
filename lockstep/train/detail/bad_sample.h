// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/train/fields.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::train::detail {

// The first NaN or infinity in a field that is an input or a label: "a nan in field image".
std::optional<BadSample> find_non_finite(const std::vector<data::Fields>& shards,
                                         const FieldRoles& roles);

// Runs each sample of the batch as if it were the whole batch, until one makes `run` throw
// InvalidArgument.
std::optional<BadSample> find_refused_row(const data::Fields& batch,
                                          const std::function<void(const data::Fields&)>& run);

}  // namespace lockstep::train::detail
