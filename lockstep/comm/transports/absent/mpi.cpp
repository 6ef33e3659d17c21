// SPDX-License-Identifier: Apache-2.0
// In place of ../mpi.cpp where MPI is not installed.
#include "lockstep/comm/transports/mpi.h"

namespace lockstep::comm {

bool has_mpi() { return false; }

std::unique_ptr<Transport> connect_mpi() {
  throw Unsupported("transport mpi: this build has none; install libopenmpi-dev and build again");
}

}  // namespace lockstep::comm
