// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {

// Throws Corrupt that begins with `name` when a label is not in [0, classes).
inline void check_labels(std::span<const std::int64_t> labels, std::int64_t classes,
                         const std::string& name) {
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      throw Corrupt("{}: label {} of sample {}, expected 0 to {}", name, labels[i], i, classes - 1);
}

}  // namespace lockstep::data::detail
