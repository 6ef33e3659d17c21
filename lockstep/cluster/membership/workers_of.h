// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/membership.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::cluster {

// The membership of a group that no coordinator has gathered, such as the threads of a process, or
// the ranks of an mpirun over MPI alone: all of them are workers, from the beginning to the end.
Membership workers_of(const comm::Communicator& communicator);

}  // namespace lockstep::cluster
