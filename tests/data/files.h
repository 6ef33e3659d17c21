// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/file.h"

namespace lockstep::testing {

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // Writes a file, and its folders.
  std::string write(const std::string& name, std::string_view contents) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    write_file(path(name), contents);
    return path(name);
  }

 private:
  std::string path_;
};

// Bytes of numbers: bytes({0, 0, 8, 1}).
inline std::string bytes(std::initializer_list<int> values) {
  std::string result;
  for (const int value : values) result.push_back(static_cast<char>(value));
  return result;
}

}  // namespace lockstep::testing
