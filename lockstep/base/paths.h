// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

// One text for one place, wherever it is named from: no "." or "..", no slash at the end. Links are
// not followed, and nothing need be there.
inline std::string absolute_path(const std::string& path) {
  std::string text = std::filesystem::absolute(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace lockstep
