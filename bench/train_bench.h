// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::bench {

// A model and the global batch that it is measured with.
struct TrainCase {
  std::string model;
  std::int64_t batch = 0;
};
const std::vector<TrainCase>& train_cases();
std::vector<std::string> train_case_names();
// Those of these names, all where there are none. Throws NotFound that begins with `bench`.
std::vector<TrainCase> chosen_cases(const std::string& bench,
                                    const std::vector<std::string>& names);

struct TrainSide {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t shards = 8;
  int threads = 1;
};

// Our side of the conversation that bench/peers/train_peer.py has.
int serve_train(const TrainSide& side);

}  // namespace lockstep::bench
