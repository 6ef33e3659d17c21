// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

// A place where a group can meet. connect() is called once by each rank, from threads of one
// process or, when `forks`, from forked ones.
class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Transport> connect(int rank) = 0;
};

struct WorldKind {
  std::string name;
  bool forks = false;
  std::function<std::unique_ptr<World>(int size)> make;
};

// For INSTANTIATE_TEST_SUITE_P.
inline std::string name_of(const ::testing::TestParamInfo<WorldKind>& info) {
  return info.param.name;
}

inline std::span<std::byte> bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}
inline std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::string random_group();
std::unique_ptr<World> make_in_process_world(std::vector<std::string> hosts);

// Ranks on the hosts of these letters, connected as connect_group does by itself.
WorldKind make_hosts_kind(const std::string& hosts);

// Every transport of this build: the suite runs on each.
std::vector<WorldKind> world_kinds();
// Those whose peers die, stop and stay away. UCX 1.13 does not survive the death of a peer every
// time: it is among them when LOCKSTEP_TEST_UCX is set.
std::vector<WorldKind> world_kinds_that_fail();

// Runs the body once for each rank, each in a thread of its own, and rethrows the error of the
// lowest rank that had one.
void run_ranks(const WorldKind& kind, int size, const std::function<void(Communicator&)>& body);

}  // namespace lockstep::comm
