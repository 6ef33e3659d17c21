// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

// Why a page is not well-formed: tags that do not nest, attributes without quotes, a bare '<' or
// '&'. Empty when it is. As strict as XML, so that every browser sees the same tree.
inline std::string why_not_well_formed(std::string_view page) {
  std::vector<std::string> open;
  std::size_t at = page.starts_with("<!DOCTYPE html>") ? 15 : 0;
  const auto place = [&](const char* what) {
    return fmt::format("{} at byte {}: {}", what, at, page.substr(at, 40));
  };
  while (at < page.size()) {
    if (page[at] == '&') {
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"})
        known = known || page.substr(at).starts_with(entity);
      if (!known) return place("a bare '&'");
    }
    if (page[at] != '<') {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    bool quoted = false;
    for (; end < page.size() && (quoted || page[end] != '>'); ++end) {
      if (page[end] == '"') quoted = !quoted;
      if (page[end] == '<') return place("a '<' inside a tag");
    }
    if (end == page.size()) return place("a tag without an end");
    const std::string_view tag = page.substr(at + 1, end - at - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    for (std::size_t equals = tag.find('='); equals != std::string_view::npos;) {
      if (equals + 1 >= tag.size() || tag[equals + 1] != '"') return place("no quotes");
      const std::size_t close = tag.find('"', equals + 2);
      if (close == std::string_view::npos) return place("no closing quote");
      equals = tag.find('=', close);
    }
    if (name.starts_with("/")) {
      if (open.empty() || "/" + open.back() != name) return place("ends what is not open");
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "open at the end: " + open.back();
}

}  // namespace lockstep::testing
