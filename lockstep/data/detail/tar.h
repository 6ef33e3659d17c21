// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data::detail {

struct TarFile {
  std::string path;
  std::string_view contents;  // in the archive's bytes
};

// The regular files of a tar archive (ustar, with pax and GNU long names), in its order. Throws
// Corrupt that begins with `name`.
std::vector<TarFile> parse_tar(std::string_view bytes, const std::string& name);

}  // namespace lockstep::data::detail
