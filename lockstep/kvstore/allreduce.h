// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/exchange.h"

namespace lockstep::kvstore {

// Gradients by all-reduce in the canonical tree order: the same bits for any number of workers. The
// communicator outlives it.
std::unique_ptr<Exchange> allreduce_exchange(comm::Communicator& communicator,
                                             const comm::CallOptions& options = {});

}  // namespace lockstep::kvstore
