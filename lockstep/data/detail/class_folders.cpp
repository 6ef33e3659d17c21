// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/class_folders.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {
namespace {

namespace fs = std::filesystem;

// Names of the folder's folders, or of its files, sorted.
std::vector<std::string> list_names(const std::string& folder, bool folders) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;
    if (folders ? entry.is_directory() : entry.is_regular_file()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

ClassFolder list_class(const std::string& folder, const std::string& name) {
  ClassFolder result{name, list_names(folder + "/" + name, false)};
  for (std::string& file : result.files) file = folder + "/" + name + "/" + file;
  return result;
}

}  // namespace

std::vector<ClassFolder> list_class_folders(const std::string& folder) {
  if (!fs::is_directory(folder)) throw NotFound("{}: there is no such folder", folder);
  try {
    std::vector<ClassFolder> classes;
    for (const std::string& name : list_names(folder, true))
      classes.push_back(list_class(folder, name));
    if (classes.empty())
      throw NotFound("{}: has no folder in it, expected one for each class", folder);
    return classes;
  } catch (const fs::filesystem_error& error) {
    throw IoError("{}: cannot be read: {}", folder, error.what());
  }
}

}  // namespace lockstep::data::detail
