// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::parallel {

// A way between two workers.
struct LinkModel {
  double bytes_per_s = 0.0;  // of payload; 0: it takes no time
  double latency_s = 0.0;    // one way
  double message_s = 0.0;    // that a message takes its sender
  double seconds(double bytes) const { return bytes_per_s > 0.0 ? bytes / bytes_per_s : 0.0; }
};

// "25gbit,10us", as `tc` has them: the line's rate, of which headers take 6 percent. Rates: bit,
// kbit, mbit, gbit, or bytes a second: KB, MB, GB. Throws InvalidArgument.
LinkModel parse_link(std::string_view text);

// Machines that are all alike, and what is between them. Ranks fill host by host.
struct ClusterModel {
  int workers = 1, hosts = 1;
  // A host's link is shared by its workers, in each direction by itself.
  LinkModel network = {};
  // Between workers of one host: shared memory.
  LinkModel inside = {6e9, 3e-6, 1e-6};
  double add_bytes_per_s = 8e9;  // adding gradients
  double speed = 1.0;            // of a worker, against where costs were measured
  bool has_spare_cores = false;  // a worker may send while all its threads compute
  double send_s_per_byte = 0.0;  // of a core, to bring a byte to the network or from there

  int host_of(int worker) const;
  std::vector<int> host_of_each() const;  // worker, by rank
  // The same with links that take no time.
  ClusterModel without_network() const;
};

}  // namespace lockstep::parallel
