// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// The ranks of an mpirun or srun that started this process; MPI says who they are. Every rank calls
// it, from one thread, once in a process at a time. A rank that dies ends the whole job by MPI's
// own hand, since MPI knows no survivors. Throws Unsupported in a build without MPI.
std::unique_ptr<Transport> connect_mpi();
// Whether this build has it.
bool has_mpi();

}  // namespace lockstep::comm
