// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

// A header and contents, padded, of a tar archive.
inline std::string tar_entry(const std::string& path, const std::string& contents,
                             char type = '0') {
  std::string header(512, '\0');
  header.replace(0, path.size(), path);
  char octal[32];
  std::snprintf(octal, sizeof octal, "%011zo", contents.size());
  header.replace(124, 11, octal, 11);
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  header.replace(148, 6, octal, 6);
  header[154] = '\0';
  return header + contents + std::string((512 - contents.size() % 512) % 512, '\0');
}

inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string result;
  for (const auto& [path, contents] : files) result += tar_entry(path, contents);
  return result + std::string(1024, '\0');
}

}  // namespace lockstep::testing
