// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "tests/temporary_folder.h"

namespace lockstep::testing {

// Without write_file's wait for the disk: tests write many.
inline void write_quickly(const std::string& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

}  // namespace lockstep::testing
