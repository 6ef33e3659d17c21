// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/coordinator_server.h"

#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/comm/errors.h"

namespace lockstep::cluster::detail {

// Messages are encrypted, for that nobody on the way can change or repeat one. Members that are
// silent are absent, and stay members.
comm::MessageServerOptions server_options(const CoordinatorOptions& options) {
  comm::MessageServerOptions result;
  result.listen = options.listen;
  result.ports = options.ports;
  result.secret = options.secret;
  result.encrypted = true;
  result.heartbeat = HeartbeatMonitor::interval(options.heartbeat);
  result.silence = options.heartbeat;
  result.drops_silent = false;
  result.serves_at_once = false;
  result.handshake_timeout = options.handshake_timeout;
  result.longest_message = kLongestMessage;
  result.shared_memory = 0;  // nothing of this is long
  return result;
}

void raise(const Failure& failure) {
  if (failure.type == Failure::Type::lost)
    throw comm::PeerLost(failure.text, failure.rank, failure.host, "rendezvous");
  if (failure.type == Failure::Type::timeout)
    throw comm::Timeout(failure.text, failure.rank, failure.host, "rendezvous");
  throw comm::Refused(failure.text);
}

}  // namespace lockstep::cluster::detail
