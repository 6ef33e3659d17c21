// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <span>

#include "lockstep/base/thread_team.h"
#include "lockstep/kvstore/flat_layout.h"

namespace lockstep::kvstore {

// Any thread may take any piece.
template <class Work>
void each_piece(ThreadTeam& team, std::span<const FlatPiece> pieces, const Work& work) {
  std::atomic<std::size_t> next = 0;
  team.run([&](int) {
    for (std::size_t i = next++; i < pieces.size(); i = next++) work(pieces[i]);
  });
}

}  // namespace lockstep::kvstore
