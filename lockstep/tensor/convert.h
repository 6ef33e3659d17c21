// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/tensor/half.h"

namespace lockstep {

// Dense runs of halves to float32 and back, as half.h converts them.
void convert_run(const BFloat16* source, float* target, std::size_t count);
void convert_run(const Float16* source, float* target, std::size_t count);
void convert_run(const float* source, BFloat16* target, std::size_t count);
void convert_run(const float* source, Float16* target, std::size_t count);

}  // namespace lockstep
