// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::bench {

inline constexpr std::size_t kMostBytes = 64 * 1024 * 1024;

// Our side of bench comm: so many ranks in processes of their own; rank 0 prints a line for each
// collective and size.
struct CommSide {
  int ranks = 2;
  bool quick = false;
  comm::Algorithm algorithm = comm::Algorithm::automatic;
  std::vector<std::string> names = {};  // collectives; none: all
  // Network namespaces for the first and the second half of the ranks; none: all share memory.
  std::vector<std::string> networks = {};
};

std::vector<std::string> collective_names();
std::vector<std::string> algorithm_names();
// Throws NotFound.
comm::Algorithm find_algorithm(const std::string& name);
// The exit status.
int serve_comm(const CommSide& side);

struct CommBenchOptions {
  bool json = false;
  bool quick = false;
  bool peer = true;
  int ranks = 2;
  std::string algorithm = "automatic";
  std::vector<std::string> names = {};
  bool namespaces = false;     // two halves that a network connects
  std::string link_rate = {};  // of that network; empty: as fast as it goes
};
void run_comm(const CommBenchOptions& options);

}  // namespace lockstep::bench
