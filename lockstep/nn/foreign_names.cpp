// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/foreign_names.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "lockstep/io/edit_tensors.h"

namespace lockstep::nn {
namespace {

using Tensors = std::vector<std::pair<std::string, Tensor>>;
using Names = std::set<std::string, std::less<>>;

struct Alias {
  std::string_view ours, theirs;
};
// Ends of names, after a dot or as the whole name.
constexpr std::array<Alias, 13> kEnds{{{"gamma", "weight"},
                                       {"beta", "bias"},
                                       {"running_mean", "moving_mean"},
                                       {"running_var", "moving_var"},
                                       {"alpha", "weight"},
                                       {"qkv.weight", "in_proj_weight"},
                                       {"qkv.bias", "in_proj_bias"},
                                       {"proj.weight", "out_proj.weight"},
                                       {"proj.bias", "out_proj.bias"},
                                       {"i2h_weight", "weight_ih"},
                                       {"h2h_weight", "weight_hh"},
                                       {"i2h_bias", "bias_ih"},
                                       {"h2h_bias", "bias_hh"}}};
// What wrappers put before every name.
constexpr std::array<std::string_view, 3> kWrappers{"module.", "_orig_mod.", "state_dict."};
constexpr std::string_view kCounter = "num_batches_tracked";

bool ends_with_part(std::string_view name, std::string_view end) {
  return name.ends_with(end) &&
         (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
}

// "lstm.r0_i2h_weight" is PyTorch's "lstm.weight_ih_l0_reverse"; empty for what is no such name.
std::string recurrent_name(const std::string& name) {
  const std::size_t begin = name.rfind('.') + 1;  // 0 where there is no dot
  const std::string_view last = std::string_view(name).substr(begin);
  const std::size_t line = last.find('_');
  if (line == std::string_view::npos || line < 2 || (last[0] != 'l' && last[0] != 'r')) return "";
  const std::string_view layer = last.substr(1, line - 1), rest = last.substr(line + 1);
  if (layer.find_first_not_of("0123456789") != std::string_view::npos) return "";
  for (const Alias& alias : kEnds)
    if (alias.ours == rest && alias.ours.find("2h_") != std::string_view::npos)
      return fmt::format("{}{}_l{}{}", name.substr(0, begin), alias.theirs, layer,
                         last[0] == 'r' ? "_reverse" : "");
  return "";
}

// What others call the parameter, the likeliest first.
std::vector<std::string> other_names(const std::string& name) {
  std::vector<std::string> others;
  for (const Alias& alias : kEnds)
    if (ends_with_part(name, alias.ours))
      others.push_back(name.substr(0, name.size() - alias.ours.size()) + std::string(alias.theirs));
  if (const std::string recurrent = recurrent_name(name); !recurrent.empty())
    others.push_back(recurrent);
  return others;
}

bool all_begin_with(const Tensors& tensors, std::string_view prefix) {
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [&](const auto& named) {
    return named.first.starts_with(prefix);
  });
}

bool any_begins_with(const Names& names, std::string_view prefix) {
  const auto found = names.lower_bound(prefix);
  return found != names.end() && found->starts_with(prefix);
}

Names names_in(const Tensors& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  return names;
}

// Nothing is taken off that would make two names one.
void take_off_mxnet_prefixes(Tensors& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.insert(io::without_mxnet_prefix(name));
  if (names.size() != tensors.size()) return;
  for (auto& [name, tensor] : tensors) name = io::without_mxnet_prefix(name);
}

void take_off_wrappers(Tensors& tensors, const Names& own) {
  for (const std::string_view wrapper : kWrappers)
    if (all_begin_with(tensors, wrapper) && !any_begins_with(own, wrapper))
      for (auto& [name, tensor] : tensors) name.erase(0, wrapper.size());
}

// Batch norm's, beside the statistics that it counts.
void leave_out_counters(Tensors& tensors, const Names& own) {
  const Names there = names_in(tensors);
  std::erase_if(tensors, [&](const auto& named) {
    const std::string& name = named.first;
    if (own.contains(name) || !ends_with_part(name, kCounter)) return false;
    return there.contains(name.substr(0, name.size() - kCounter.size()) + "running_mean");
  });
}

}  // namespace

Tensors with_own_names(const std::vector<NamedParameter>& parameters, Tensors tensors) {
  Names own;
  for (const NamedParameter& named : parameters) own.insert(named.name);
  take_off_mxnet_prefixes(tensors);
  take_off_wrappers(tensors, own);
  leave_out_counters(tensors, own);
  const Names there = names_in(tensors);
  std::map<std::string, std::string> renamed;  // theirs to ours
  for (const std::string& name : own) {
    if (there.contains(name)) continue;
    for (const std::string& other : other_names(name))
      if (there.contains(other) && !own.contains(other) && renamed.emplace(other, name).second)
        break;
  }
  for (auto& [name, tensor] : tensors)
    if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
  return tensors;
}

}  // namespace lockstep::nn
