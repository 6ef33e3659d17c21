// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

#include "lockstep/comm/detail/message_wire.h"

namespace lockstep::comm::detail {

// A thread that no signal interrupts, under a name of at most 15 characters.
std::jthread start_message_thread(const char* name,
                                  std::function<void(const std::stop_token&)> work);

}  // namespace lockstep::comm::detail
