// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/class_folders.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {
namespace {

namespace fs = std::filesystem;

// What is visible in a folder, sorted; links are what they lead to.
struct Listing {
  std::vector<std::string> folders = {}, files = {}, broken_links = {};
};

Listing list(const std::string& folder) {
  Listing found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with('.')) continue;
    const std::string path = folder + "/" + entry.path().filename().string();
    if (entry.is_directory()) found.folders.push_back(path);
    if (entry.is_regular_file()) found.files.push_back(path);
    if (entry.is_symlink() && !entry.exists()) found.broken_links.push_back(path);
  }
  for (auto* paths : {&found.folders, &found.files, &found.broken_links})
    std::sort(paths->begin(), paths->end());
  return found;
}

ClassFolder list_class(const std::string& folder) {
  Listing found = list(folder);
  return {fs::path(folder).filename().string(), std::move(found.files),
          std::move(found.broken_links)};
}

}  // namespace

NotFound broken_link(const std::string& path) {
  std::error_code error;
  return NotFound("{}: is a link to {}, which is not there", path,
                  fs::read_symlink(path, error).string());
}

std::vector<ClassFolder> list_class_folders(const std::string& folder) {
  if (!fs::is_directory(folder)) throw NotFound("{}: there is no such folder", folder);
  try {
    std::vector<ClassFolder> classes;
    const Listing found = list(folder);
    if (!found.broken_links.empty()) throw broken_link(found.broken_links.front());
    for (const std::string& path : found.folders) classes.push_back(list_class(path));
    if (classes.empty())
      throw NotFound("{}: has no folder in it, expected one for each class", folder);
    return classes;
  } catch (const fs::filesystem_error& error) {
    throw IoError("{}: cannot be read: {}", folder, error.what());
  }
}

}  // namespace lockstep::data::detail
