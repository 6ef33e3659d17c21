// SPDX-License-Identifier: Apache-2.0
#include "tests/seed.h"

#include <fmt/format.h>

#include <cstdlib>
#include <random>

namespace lockstep::testing {

std::uint64_t seed_of_this_run() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("LOCKSTEP_SEED");
    const std::uint64_t value = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    fmt::print("LOCKSTEP_SEED={}\n", value);
    return value;
  }();
  return seed;
}

}  // namespace lockstep::testing
