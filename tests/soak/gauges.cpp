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

}  // namespace

std::string Gauges::str() const {
  return fmt::format("{:.1f} MB, {} threads, {} descriptors, {} in /dev/shm, pool {:.2f} MB live",
                     static_cast<double>(resident_kb) / 1000.0, threads, descriptors, shared_memory,
                     static_cast<double>(live_bytes) / 1e6);
}

GaugeReader::GaugeReader() : shared_before_(entries_in("/dev/shm")) {}

Gauges GaugeReader::read() const {
  release_unused_memory();
  const MemoryStats stats = memory_stats();
  return {.resident_kb = status_of("VmRSS"),
          .threads = status_of("Threads"),
          .descriptors = entries_in("/proc/self/fd"),
          .shared_memory = entries_in("/dev/shm") - shared_before_,
          .live_bytes = stats.live_bytes,
          .pooled_bytes = stats.pooled_bytes};
}

}  // namespace lockstep::testing
