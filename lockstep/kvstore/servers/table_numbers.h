// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/servers/table_messages.h"

namespace lockstep::kvstore {

// The floats of a table that a worker asks for. Throws InvalidArgument when it has not so many.
std::span<float> numbers_of(const FlatState& state, const wire::Access& request);

// Of everything that is here.
void clear_slot(const FlatState& state, std::size_t number);

}  // namespace lockstep::kvstore
