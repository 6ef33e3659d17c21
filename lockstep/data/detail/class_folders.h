// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {

struct ClassFolder {
  std::string name;
  std::vector<std::string> files;         // paths, by name
  std::vector<std::string> broken_links;  // to what is not there
};

// The folders of a folder and their files, by name; hidden ones are left out. Throws NotFound when
// there is no such folder, no folder in it, or beside them a broken link; IoError when one cannot
// be read.
std::vector<ClassFolder> list_class_folders(const std::string& folder);

// What is to be said of one.
NotFound broken_link(const std::string& path);

}  // namespace lockstep::data::detail
