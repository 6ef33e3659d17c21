// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// A group whose ranks are threads of one process: for tests, and for a rank that is alone.
class InProcessGroup {
 public:
  // `hosts` are the ranks' host names; so many ranks there are.
  explicit InProcessGroup(std::vector<std::string> hosts, std::size_t stream_bytes = 64 * 1024);
  ~InProcessGroup();

  std::unique_ptr<Transport> connect(int rank);
  // As if the rank's process had died: its peers get PeerLost, and so does it.
  void kill(int rank);

 private:
  friend class InProcessTransport;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep::comm
