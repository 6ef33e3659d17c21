// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/nearest.h"
#include "lockstep/nn/block.h"
#include "lockstep/nn/detail/contains.h"

// Parts of a model, by their names.
namespace lockstep::nn {
namespace {

constexpr std::size_t kNamesOfAnError = 20;

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesOfAnError); ++i)
    list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesOfAnError)
    list += fmt::format(" and {} more", names.size() - kNamesOfAnError);
  return list.empty() ? "none" : list;
}

std::vector<NamedParameter> matching(const Block& block, const char* what,
                                     const std::string& pattern) {
  std::vector<NamedParameter> found = block.parameters(pattern);
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const NamedParameter& named : block.parameters()) names.push_back(named.name);
  throw NotFound("{}: no parameter's name matches '{}' (there are: {})", what, pattern,
                 list_of(names));
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) return {path, ""};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

BlockPtr find_child(const Block& block, const std::string& name, const std::string& path) {
  std::vector<std::string> names;
  for (const Block::Child& child : block.children()) {
    if (child.name == name) return child.block;
    names.push_back(child.name);
  }
  const std::string meant = nearest(name, names);
  throw NotFound("child: there is no '{}': {} has {}{}", path, block.description(), list_of(names),
                 meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant));
}

// A block calls its children by pointers of its own, which do not say by which name one is meant.
void check_can_tell(const Block& parent, const Block::Child& place) {
  for (const Block::Child& other : parent.children())
    if (other.name != place.name && other.block == place.block)
      throw InvalidArgument(
          "replace_child: '{}' of {} is the same block as its '{}', whose calls cannot be told "
          "apart",
          place.name, parent.description(), other.name);
}

}  // namespace

BlockPtr Block::child(const std::string& path) const {
  const auto [name, rest] = split(path);
  const BlockPtr found = find_child(*this, name, path);
  return rest.empty() ? found : found->child(rest);
}

void Block::replace_child(const std::string& path, BlockPtr block) {
  child(path);  // it is there
  if (block == nullptr || block.get() == this)
    throw InvalidArgument("replace_child: '{}' would be {}", path,
                          block ? "the block itself" : "null");
  const std::size_t dot = path.rfind('.');
  const BlockPtr holder = dot == std::string::npos ? nullptr : child(path.substr(0, dot));
  Block& parent = holder == nullptr ? *this : *holder;
  if (detail::contains(*block, parent))
    throw InvalidArgument("replace_child: '{}' would be {}, which contains it", path,
                          block->description());
  parent.replace_own_child(dot == std::string::npos ? path : path.substr(dot + 1),
                           std::move(block));
}

// The old one is kept: code of this block may hold it and call it, and a trace knows its address.
void Block::replace_own_child(const std::string& name, BlockPtr block) {
  const auto place = std::find_if(children_.begin(), children_.end(),
                                  [&](const Child& child) { return child.name == name; });
  if (dynamic_cast<const Sequential*>(this) == nullptr) {
    check_can_tell(*this, *place);
    for (const auto& [before, now] : replaced_)
      if (before == block && now != place->block)
        throw InvalidArgument(
            "replace_child: '{}' of {} would be a block that was another child of it, whose calls "
            "cannot be told apart",
            name, description());
  }
  for (const NamedParameter& named : block->parameters())
    if (named.parameter.name() == named.name) named.parameter.set_name(name + "." + named.name);
  const BlockPtr old = std::exchange(place->block, block);
  for (auto& [before, now] : replaced_)
    if (now == old) now = block;
  std::erase_if(replaced_, [&](const auto& pair) { return pair.first == block; });
  if (old != block) replaced_.emplace_back(old, std::move(block));
}

void Block::freeze(const std::string& pattern) {
  for (const NamedParameter& named : matching(*this, "freeze", pattern))
    named.parameter.set_trainable(false);
}

void Block::unfreeze(const std::string& pattern) {
  for (const NamedParameter& named : matching(*this, "unfreeze", pattern))
    named.parameter.set_trainable(true);
}

void Block::set_multipliers(const std::string& pattern, double rate, double decay) {
  if (!(rate >= 0.0) || !(decay >= 0.0))
    throw InvalidArgument("set_multipliers: '{}' has rate {} and decay {}, expected 0 or more",
                          pattern, rate, decay);
  for (const NamedParameter& named : matching(*this, "set_multipliers", pattern))
    named.parameter.set_multipliers(rate, decay);
}

}  // namespace lockstep::nn
