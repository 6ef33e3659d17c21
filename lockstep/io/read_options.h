// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/gzip.h"

namespace lockstep::io {

struct ReadOptions {
  // A few bytes can stand for many: the most that all of a file's compressed and sparse arrays may
  // become together. More is Corrupt.
  std::int64_t max_inflated = kMaxInflated;
};

}  // namespace lockstep::io
