// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/table_numbers.h"

#include "lockstep/base/error.h"

namespace lockstep::kvstore {

std::span<float> numbers_of(const FlatState& state, const wire::Access& request) {
  const std::size_t floats = state.layout().floats;
  if (request.slot < -1 || request.slot >= static_cast<std::int32_t>(state.slots()))
    throw InvalidArgument("slot {}, the rule has {}", request.slot, state.slots());
  if (request.count > floats || request.offset > floats - request.count)
    throw InvalidArgument("floats {} to {}, the table has {} here", request.offset,
                          request.offset + request.count, floats);
  const std::span<float> all =
      request.slot < 0 ? state.weights() : state.slot(static_cast<std::size_t>(request.slot));
  return all.subspan(request.offset, request.count);
}

}  // namespace lockstep::kvstore
