// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/edit_tensors.h"

#include <regex>

namespace lockstep::io {
namespace {

// The library's search is recursive: a longer text may exhaust the stack.
constexpr std::size_t kLongestName = 4096;

bool is_statistic(const std::string& name) {
  for (const char* end : {"running_mean", "running_var", "moving_mean", "moving_var"})
    if (name.ends_with(end)) return true;
  return false;
}

std::regex expression_of(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw InvalidArgument("rename: '{}' is no regular expression: {}", pattern, error.what());
  }
}

std::string replaced(const std::string& name, const std::regex& expression,
                     const std::string& replacement) {
  if (name.size() > kLongestName)
    throw InvalidArgument("rename: a name has {} bytes, expected {} at most", name.size(),
                          kLongestName);
  return std::regex_replace(name, expression, replacement);
}

}  // namespace

std::string without_mxnet_prefix(const std::string& name) {
  return name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name;
}

std::string with_mxnet_prefix(const std::string& name) {
  if (without_mxnet_prefix(name) != name) return name;
  return (is_statistic(name) ? "aux:" : "arg:") + name;
}

void rename(std::vector<NamedTensor>& tensors, const std::string& pattern,
            const std::string& replacement) {
  const std::regex expression = expression_of(pattern);
  bool any = false;
  try {
    for (auto& [name, tensor] : tensors) {
      any |= name.size() <= kLongestName && std::regex_search(name, expression);
      name = replaced(name, expression, replacement);
    }
  } catch (const std::regex_error& error) {
    throw InvalidArgument("rename: '{}': {}", pattern, error.what());
  }
  if (!any) throw NotFound("rename: '{}' matches none of the {} names", pattern, tensors.size());
}

void cast_floats(std::vector<NamedTensor>& tensors, DType dtype) {
  for (auto& [name, tensor] : tensors) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) continue;
    const Tensor cast = Tensor::empty(tensor.shape(), dtype, tensor.device());
    cast.assign(tensor);
    tensor = cast;
  }
}

}  // namespace lockstep::io
