// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::kvstore {

// What an update rule keeps for the values of a store, as a file has it.
struct OptimizerStates {
  struct OfKey {
    std::int64_t steps = 0;
    std::vector<std::vector<float>> slots = {};  // none before the first update
  };
  std::string rule;
  std::map<std::string, OfKey> keys = {};  // by Key::str()

  void save(const std::string& path) const;
  // Throws IoError, Corrupt, and InvalidArgument when they are of another rule.
  static OptimizerStates load(const std::string& path, std::string_view rule);
};

}  // namespace lockstep::kvstore
