// SPDX-License-Identifier: Apache-2.0
// In place of ../ucx.cpp where OpenUCX is not installed.
#include "lockstep/comm/transports/ucx.h"

namespace lockstep::comm {

bool has_ucx() { return false; }

std::unique_ptr<Transport> connect_ucx(const Bootstrap&) {
  throw Unsupported("transport ucx: this build has none; install libucx-dev and build again");
}

}  // namespace lockstep::comm
