// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data::detail {

struct TarFile {
  std::string path;
  std::string contents;
};

// The regular files of a tar archive, in its order; folders and links are left out. Together they
// have no more bytes than the archive, and no path leads out of it. Throws Corrupt that begins with
// `name`.
std::vector<TarFile> parse_tar(std::string_view bytes, const std::string& name);

}  // namespace lockstep::data::detail
