// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Throws NotFound when there is no such file, IoError when it cannot be read.
std::string read_file(const std::string& path);

// All or nothing: a reader sees the old contents or the new ones, and a failed write leaves the
// old. Throws IoError.
void write_file(const std::string& path, std::string_view contents);

}  // namespace lockstep
