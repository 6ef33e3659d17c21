// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

// Each rank's text, of whatever length, in the order of ranks. All ranks call it.
std::vector<std::string> share_texts(Communicator& group, const std::string& own,
                                     const CallOptions& options = {});

// What each rank said, in the order of ranks, must be what the first said; for one that said
// something else `differs` throws what a reader needs to know.
using Differs =
    std::function<void(std::size_t rank, const std::string& first, const std::string& its)>;
void compare_texts(const std::vector<std::string>& all, const Differs& differs);

}  // namespace lockstep::comm
