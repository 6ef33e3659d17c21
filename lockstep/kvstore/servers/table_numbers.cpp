// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/table_numbers.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {

namespace {

std::span<float> all_numbers_of(const FlatState& state, const wire::Access& request) {
  const auto slot = static_cast<std::size_t>(request.slot);
  if (request.rows < 0) return request.slot < 0 ? state.weights() : state.slot(slot);
  const auto table = static_cast<std::size_t>(request.rows);
  if (table >= state.tables().size())
    throw InvalidArgument("rows of table {}, there are {} here", table, state.tables().size());
  return request.slot < 0 ? state.tables().weights(table) : state.tables().slot(slot, table);
}

}  // namespace

std::span<float> numbers_of(const FlatState& state, const wire::Access& request) {
  if (request.slot < -1 || request.slot >= static_cast<std::int32_t>(state.slots()))
    throw InvalidArgument("slot {}, the rule has {}", request.slot, state.slots());
  const std::span<float> all = all_numbers_of(state, request);
  if (request.count > all.size() || request.offset > all.size() - request.count)
    throw InvalidArgument("floats {} to {}, the table has {} here", request.offset,
                          request.offset + request.count, all.size());
  return all.subspan(request.offset, request.count);
}

void clear_slot(const FlatState& state, std::size_t number) {
  std::ranges::fill(state.slot(number), 0.0F);
  for (std::size_t t = 0; t < state.tables().size(); ++t)
    std::ranges::fill(state.tables().slot(number, t), 0.0F);
}

}  // namespace lockstep::kvstore
