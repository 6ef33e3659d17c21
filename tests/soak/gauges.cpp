// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/gauges.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "lockstep/tensor/storage.h"

namespace lockstep::testing {
namespace {

std::int64_t status_of(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  return 0;
}

std::int64_t entries_in(const char* folder) {
  std::int64_t count = 0;
  std::error_code ignored;
  for (auto entry = std::filesystem::directory_iterator(folder, ignored);
       entry != std::filesystem::directory_iterator(); entry.increment(ignored))
    ++count;
  return count;
}

// The system's folder is shared with others, this process's mappings are its own.
std::int64_t shared_mappings() {
  std::int64_t count = 0;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);)
    count += line.find("/dev/shm/") != std::string::npos ||
             line.find("/memfd:lockstep") != std::string::npos;
  return count;
}

}  // namespace

std::string Gauges::str() const {
  return fmt::format(
      "{:.1f} MB, {} threads, {} descriptors, {} mappings of /dev/shm, pool {:.2f} MB live",
      static_cast<double>(resident_kb) / 1000.0, threads, descriptors, shared_memory,
      static_cast<double>(live_bytes) / 1e6);
}

Gauges read_gauges() {
  release_unused_memory();
  const MemoryStats stats = memory_stats();
  return {.resident_kb = status_of("VmRSS"),
          .threads = status_of("Threads"),
          .descriptors = entries_in("/proc/self/fd"),
          .shared_memory = shared_mappings(),
          .live_bytes = stats.live_bytes,
          .pooled_bytes = stats.pooled_bytes};
}

}  // namespace lockstep::testing
