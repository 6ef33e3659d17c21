// SPDX-License-Identifier: Apache-2.0
#include "bench/responder.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/process.h"

namespace lockstep::bench {
namespace {

// Long enough for a step of the slowest model on a busy machine, and for a compilation before it.
constexpr std::chrono::minutes kDeadline{10};

}  // namespace

Json Responder::answer() {
  const auto line = child_.read_line(kDeadline);
  if (!line) throw IoError("a benchmark's process ended before it answered");
  Json json = Json::parse(*line, nullptr, false);
  if (!json.is_object()) throw IoError("a benchmark's process answered '{}'", *line);
  if (json.contains("error")) throw IoError("{}", json["error"].get<std::string>());
  return json;
}

Json Responder::ask(const std::string& line) {
  child_.write_line(line);
  return answer();
}

std::filesystem::path peer_script(const std::string& name) {
  const std::filesystem::path folder = program_path().parent_path().parent_path();
  for (const char* place : {"../bench/peers", "share/lockstep/bench/peers"})
    if (const auto path = folder / place / name; std::filesystem::exists(path))
      return std::filesystem::canonical(path);
  throw NotFound("bench: the peer {} is not there", name);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

}  // namespace lockstep::bench
