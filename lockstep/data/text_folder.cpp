// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text_folder.h"

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/detail/class_folders.h"

namespace lockstep::data {
namespace {

// An image would be learnt as a text of strange words.
std::string read_text(const std::string& file) {
  std::string text = read_file(file);
  if (text.starts_with("\x89PNG") || text.starts_with("\xFF\xD8\xFF"))
    throw InvalidArgument("{}: is an image, expected a text", file);
  return text;
}

}  // namespace

TextSet read_text_folder(const std::string& folder) {
  TextSet set;
  for (const detail::ClassFolder& entry : detail::list_class_folders(folder)) {
    if (!entry.broken_links.empty()) throw detail::broken_link(entry.broken_links.front());
    for (const std::string& file : entry.files) {
      set.texts.push_back(read_text(file));
      set.labels.push_back(static_cast<std::int64_t>(set.class_names.size()));
    }
    set.class_names.push_back(entry.name);
  }
  return set;
}

TextSet take_every(const TextSet& set, std::int64_t parts, std::int64_t begin, std::int64_t end) {
  if (parts < 1 || begin < 0 || begin > end || end > parts)
    throw InvalidArgument("take_every: parts [{}, {}) of {}", begin, end, parts);
  TextSet taken{{}, {}, set.class_names};
  for (std::size_t i = 0; i < set.texts.size(); ++i) {
    const std::int64_t part = static_cast<std::int64_t>(i) % parts;
    if (part < begin || part >= end) continue;
    taken.texts.push_back(set.texts[i]);
    taken.labels.push_back(set.labels[i]);
  }
  return taken;
}

}  // namespace lockstep::data
