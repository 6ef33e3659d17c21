// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/cluster_model.h"

namespace lockstep::parallel {

// What several workers do together with some bytes.
struct Collective {
  enum class Kind { sum, scatter, gather, talk };  // talk: a few bytes, from everybody to everybody
  Kind kind = Kind::sum;
  comm::Algorithm algorithm = comm::Algorithm::tree;
  std::vector<int> ranks = {};
  std::vector<int> nodes = {};  // subtrees of shards that each of them brings
  double bytes = 0.0;
  int calls = 1;  // one after the other, of all the bytes together
};

// What it costs: the bytes that each host's link carries, and time that is nobody's link.
struct Traffic {
  struct Host {
    int host = 0;
    double out = 0.0, in = 0.0;
  };
  std::vector<Host> hosts = {};  // those whose link is used
  double latency_s = 0.0;        // on the way, and of messages
  double inside_s = 0.0;         // through memory, of the busiest worker
  double core_s = 0.0;           // of the busiest worker's core: adding, sending
};

// By the algorithms of comm/algorithms/.
Traffic traffic_of(const Collective& collective, const ClusterModel& cluster);

}  // namespace lockstep::parallel
