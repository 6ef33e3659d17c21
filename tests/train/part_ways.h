// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/train/mesh.h"

namespace lockstep::testing {

inline constexpr std::chrono::seconds kPartTimeout{30};

// A way to have a part of the parameters.
struct PartWay {
  const char* name;
  train::Mesh mesh;
  std::function<std::unique_ptr<kvstore::Mode>(comm::Communicator&)> mode;
  int workers = 2;
};

inline std::vector<PartWay> part_ways() {
  const auto members = [](comm::Communicator& c) { return cluster::workers_of(c); };
  return {{"stages",
           {.cuts = {"3"}},
           [=](comm::Communicator& c) -> std::unique_ptr<kvstore::Mode> {
             return kvstore::mesh_mode(c, members(c), {.stages = 2}, {.timeout = kPartTimeout});
           }},
          {"slices",
           {.slices = 2},
           [=](comm::Communicator& c) -> std::unique_ptr<kvstore::Mode> {
             return kvstore::mesh_mode(c, members(c), {.tensor = 2}, {.timeout = kPartTimeout});
           }},
          {"cells",
           {.cuts = {"3"}, .slices = 2},
           [=](comm::Communicator& c) -> std::unique_ptr<kvstore::Mode> {
             return kvstore::mesh_mode(c, members(c), {.stages = 2, .tensor = 2},
                                       {.timeout = kPartTimeout});
           },
           4},
          {"shared weights", {.cuts = {"3"}}, [](comm::Communicator& c) {
             return kvstore::allreduce_mode(
                 c, {.timeout = kPartTimeout, .shard_state = kvstore::ShardState::parameters});
           }}};
}

}  // namespace lockstep::testing
