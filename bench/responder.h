// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/child.h"

namespace lockstep::bench {

using Json = nlohmann::ordered_json;

// A process that answers each line with one JSON object.
class Responder {
 public:
  explicit Responder(const std::vector<std::string>& command) : child_(command) {}
  // Throws IoError when it ends or answers with {"error": ...}.
  Json answer();
  Json ask(const std::string& line);

 private:
  Child child_;
};

// A peer's script, in the source tree or installed. Throws NotFound.
std::filesystem::path peer_script(const std::string& name);
// The Python that has Debian's torch.
inline constexpr const char* kPython = "/usr/bin/python3";

double median(std::vector<double> values);

}  // namespace lockstep::bench
