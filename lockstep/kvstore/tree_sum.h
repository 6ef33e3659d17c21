// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/base/shard_tree.h"

namespace lockstep::kvstore {

// target[i] = terms.back()[i] + (... + (terms[0][i] + leaf[i])). Without terms: a copy. Target may
// be one of the terms. With `check`, returns whether all sums are finite; a term that is not shows
// in every sum above it.
bool add_leaf(std::span<const float> leaf, std::span<const float* const> terms, float* target,
              bool check);
bool all_finite(std::span<const float> values);

}  // namespace lockstep::kvstore
