// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/comm/messages/message_server.h"

namespace lockstep::cluster::detail {

// How a coordinator listens.
comm::MessageServerOptions server_options(const CoordinatorOptions& options);

// As the error of its kind.
[[noreturn]] void raise(const Failure& failure);

}  // namespace lockstep::cluster::detail
