// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/differences.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

namespace lockstep::cluster::detail {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostItems = 5;
constexpr std::size_t kLongestText = 80;

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text.size() <= kLongestText ? text : text.substr(0, kLongestText) + "...";
}

std::string text_of(const Json* value) {
  if (value == nullptr) return "missing";
  return one_line(value->dump(-1, ' ', false, Json::error_handler_t::replace));
}

const Json* find(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool is_object(const Json* value) { return value != nullptr && value->is_object(); }

void compare(const std::string& path, const Json* own, const Json* others,
             std::vector<std::string>& items) {
  if (own != nullptr && others != nullptr && *own == *others) return;
  if (!is_object(own) || !is_object(others)) {
    items.push_back(fmt::format("{} is {}, not {}", path, text_of(own), text_of(others)));
    return;
  }
  std::set<std::string> keys;
  for (const Json* object : {own, others})
    for (const auto& item : object->items()) keys.insert(item.key());
  for (const std::string& key : keys)
    compare(path.empty() ? key : path + "." + key, find(*own, key), find(*others, key), items);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Of other text, where each line stands across from its like.
void compare_lines(const std::string& own, const std::string& others,
                   std::vector<std::string>& items) {
  const std::vector<std::string> left = lines_of(own), right = lines_of(others);
  if (left.size() != right.size()) return;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i] != right[i])
      items.push_back(fmt::format("it is {}, not {}", one_line(left[i]), one_line(right[i])));
}

}  // namespace

std::string differences(const std::string& own, const std::string& others) {
  const Json left = Json::parse(own, nullptr, false), right = Json::parse(others, nullptr, false);
  std::vector<std::string> items;
  left.is_object() && right.is_object() ? compare("", &left, &right, items)
                                        : compare_lines(own, others, items);
  if (items.empty()) return fmt::format("it is {}, not {}", one_line(own), one_line(others));
  const std::size_t more = items.size() - std::min(items.size(), kMostItems);
  items.resize(items.size() - more);
  if (more > 0) items.push_back(fmt::format("and {} more", more));
  return fmt::format("{}", fmt::join(items, "; "));
}

}  // namespace lockstep::cluster::detail
