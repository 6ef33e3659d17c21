// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::cluster {

// Each time a name is given other bytes its version grows by one; the first is 1.
struct RegistryEntry {
  std::int64_t version = 0;
  std::string bytes = {};
};

// What a name holds after a compare_and_set: the caller's bytes where it won.
struct ComparedEntry {
  bool won = false;
  std::int64_t version = 0;  // 0: nobody has put anything there
  std::string bytes = {};
};

struct RegistryWait {
  std::int64_t newer_than = 0;  // the version that the caller has seen
  // The id of the member that puts it: it is named when nothing comes, and the wait ends with
  // PeerLost when it goes. -1: any of them may.
  std::int64_t from = -1;
};

// Small texts by name that all members of a job see, in one order: addresses, who is in charge of
// what. From any thread. Every call throws InvalidArgument for a name or bytes that are too long,
// and for more than a registry holds; Timeout and PeerLost name the coordinator.
class Registry {
 public:
  static constexpr std::size_t kLongestName = 256;
  static constexpr std::size_t kMostNames = 65'536;
  static constexpr std::size_t kLongestValue = std::size_t{1} << 20;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr std::chrono::milliseconds kTimeout{30'000};

  virtual ~Registry() = default;

  // Whatever was there before. Returns its version.
  virtual std::int64_t put(const std::string& name, const std::string& bytes,
                           std::chrono::milliseconds timeout = kTimeout) = 0;
  // Waits until somebody has put it. Throws Timeout, which names it and who did not put it.
  virtual RegistryEntry get(const std::string& name, std::chrono::milliseconds timeout,
                            const RegistryWait& wait = {}) = 0;
  // Puts it where the version is still the expected one; 0: where nothing is there yet. Of any
  // number of callers that expect the same version one wins.
  virtual ComparedEntry compare_and_set(const std::string& name, std::int64_t expected_version,
                                        const std::string& bytes,
                                        std::chrono::milliseconds timeout = kTimeout) = 0;
};

}  // namespace lockstep::cluster
