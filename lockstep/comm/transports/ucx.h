// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/bootstrap.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// OpenUCX: InfiniBand and RoCE where they are, else TCP. Every rank calls it. Not encrypted: for
// networks that are trusted. Throws Unsupported in a build without UCX.
std::unique_ptr<Transport> connect_ucx(const Bootstrap& bootstrap);
// Whether this build has it.
bool has_ucx();

}  // namespace lockstep::comm
