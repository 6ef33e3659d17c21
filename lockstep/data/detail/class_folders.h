// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::data::detail {

struct ClassFolder {
  std::string name;
  std::vector<std::string> files;  // paths, by name
};

// The folders of a folder and their files, by name; hidden ones are left out. Throws NotFound when
// there is no such folder, or no folder in it; IoError when one cannot be read.
std::vector<ClassFolder> list_class_folders(const std::string& folder);

}  // namespace lockstep::data::detail
