// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

#include "tests/temporary_folder.h"

namespace lockstep::testing {

// Bytes of numbers: bytes({0, 0, 8, 1}).
inline std::string bytes(std::initializer_list<int> values) {
  std::string result;
  for (const int value : values) result.push_back(static_cast<char>(value));
  return result;
}

}  // namespace lockstep::testing
