// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "lockstep/base/process.h"

namespace lockstep {

// Two network namespaces of this machine and a link between them: two hosts, as far as the network
// goes, for tests and measurements. They have no names that could stay behind, and vanish with the
// last process in them.
class NetworkPair {
 public:
  // Empty, or why this machine cannot have one: it takes root and the programs ip, tc and nsenter.
  static std::string why_not();

  // Throws IoError with what the program said that could not do its part.
  NetworkPair();
  NetworkPair(const NetworkPair&) = delete;
  NetworkPair& operator=(const NetworkPair&) = delete;

  // Of side 0 or 1.
  static std::string address(int side) { return side == 0 ? "10.77.0.1" : "10.77.0.2"; }
  // A file of /proc that stands for a side.
  std::string path(int side) const;
  // Takes the calling thread to a side, with all that it starts later.
  static void enter(const std::string& path);

  // As of a cable that is pulled out.
  void cut() const;
  // The link seems fine, but what one side sends is lost.
  void lose(int from_side) const;
  // Both ways, as tc writes it: "1gbit".
  void shape(const std::string& rate) const;
  // What one side sends. A bucket that has rested lets `burst` pass at once: "256kb".
  void shape(int from_side, const std::string& rate, const std::string& burst) const;

 private:
  void start(int side);
  void run(int side, std::vector<std::string> command) const;

  std::array<Process, 2> holders_;  // keep the namespaces
};

}  // namespace lockstep
