// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "lockstep/cluster/membership/registry.h"

namespace lockstep::cluster::detail {

// What a registry holds, and never more than it may. For one thread.
class RegistryTable {
 public:
  std::int64_t put(const std::string& name, const std::string& bytes);
  ComparedEntry compare_and_set(const std::string& name, std::int64_t expected_version,
                                const std::string& bytes);
  // As another table had it.
  void restore(const std::string& name, const RegistryEntry& entry);
  // Null when there is none of a higher version.
  const RegistryEntry* find(const std::string& name, std::int64_t newer_than = 0) const;
  // "registry: 'a' was not put within 1.0 s"
  std::string why_missing(const std::string& name, std::int64_t newer_than,
                          std::chrono::milliseconds waited) const;

  // Throws InvalidArgument for what cannot be a name, or is too long for one.
  static void check_entry(const std::string& name, const std::string& bytes);

 private:
  void check_room(const std::string& name, const std::string& bytes) const;

  std::map<std::string, RegistryEntry> entries_;
  std::size_t bytes_ = 0;  // of all names and values
};

}  // namespace lockstep::cluster::detail
