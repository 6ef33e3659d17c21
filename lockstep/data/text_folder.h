// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

// Texts as the files have them: bytes, of whatever encoding.
struct TextSet {
  std::vector<std::string> texts;
  std::vector<std::int64_t> labels;
  std::vector<std::string> class_names;
};

// A folder with a folder of files for each class. Classes and files are taken by name, hidden ones
// left out. Throws NotFound when there is no such folder or no class in it, IoError.
TextSet read_text_folder(const std::string& folder);

// The texts whose place modulo `parts` is in [begin, end): a split that no random draw decides.
TextSet take_every(const TextSet& set, std::int64_t parts, std::int64_t begin, std::int64_t end);

}  // namespace lockstep::data
