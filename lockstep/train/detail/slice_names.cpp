// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/slice_names.h"

#include <map>

namespace lockstep::train::detail {
namespace {

constexpr const char* kMark = "#slice";

}  // namespace

std::string slice_name(const StepGraph::Parameter& parameter) {
  if (!parameter.is_slice()) return parameter.name;
  return parameter.name + kMark + std::to_string(parameter.slice);
}

Tensor slice_of(const StepGraph::Parameter& parameter, const Tensor& whole) {
  if (!parameter.is_slice()) return whole;
  return slice_split(whole.contiguous(), parameter.cut)[static_cast<std::size_t>(parameter.slice)];
}

std::vector<std::pair<std::string, Tensor>> join_slices(
    const std::vector<StepGraph::Parameter>& parameters,
    const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::map<std::string, const StepGraph::Parameter*> cut;  // by the slice's name
  for (const StepGraph::Parameter& parameter : parameters)
    if (parameter.is_slice()) cut[slice_name(parameter)] = &parameter;
  std::vector<std::string> order;
  std::map<std::string, std::vector<Tensor>> found;
  std::map<std::string, const StepGraph::Parameter*> of_whole;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t slash = name.find('/');
    const std::string prefix = slash == std::string::npos ? "" : name.substr(0, slash + 1);
    const auto own = cut.find(name.substr(prefix.size()));
    const bool is_slice = own != cut.end();
    const std::string whole = is_slice ? prefix + own->second->name : name;
    std::vector<Tensor>& parts = found[whole];
    if (parts.empty()) {
      order.push_back(whole);
      parts.resize(is_slice ? static_cast<std::size_t>(own->second->cut.slices()) : 1);
    }
    if (is_slice) of_whole[whole] = own->second;
    parts[is_slice ? static_cast<std::size_t>(own->second->slice) : 0] = tensor;
  }
  std::vector<std::pair<std::string, Tensor>> joined;
  for (const std::string& name : order) {
    const std::vector<Tensor>& parts = found[name];
    if (!of_whole.contains(name)) {
      joined.emplace_back(name, parts[0]);
      continue;
    }
    bool all_there = true;
    for (const Tensor& part : parts) all_there = all_there && part.defined();
    if (all_there) joined.emplace_back(name, slice_gather(parts, of_whole.at(name)->cut));
  }
  return joined;
}

}  // namespace lockstep::train::detail
