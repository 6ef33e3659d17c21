// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/cluster/membership/registry.h"

namespace lockstep::cluster {

// Of the threads of one process.
class LocalRegistry final : public Registry {
 public:
  LocalRegistry();
  ~LocalRegistry() override;

  std::int64_t put(const std::string& name, const std::string& bytes,
                   std::chrono::milliseconds timeout = kTimeout) override;
  RegistryEntry get(const std::string& name, std::chrono::milliseconds timeout,
                    const RegistryWait& wait = {}) override;
  ComparedEntry compare_and_set(const std::string& name, std::int64_t expected_version,
                                const std::string& bytes,
                                std::chrono::milliseconds timeout = kTimeout) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::cluster
