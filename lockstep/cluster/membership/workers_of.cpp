// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/workers_of.h"

namespace lockstep::cluster {

Membership workers_of(const comm::Communicator& communicator) {
  Membership membership;
  for (int rank = 0; rank < communicator.size(); ++rank)
    membership.members.push_back({.id = rank, .host = communicator.host(rank)});
  return membership;
}

}  // namespace lockstep::cluster
