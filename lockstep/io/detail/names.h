// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/archive.h"

namespace lockstep::io::detail {

// Throws InvalidArgument that begins with `path` when a name is there twice.
inline void check_names_differ(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors)
    if (!names.insert(name).second)
      throw InvalidArgument("{}: two tensors are named '{}'", path, name);
}

}  // namespace lockstep::io::detail
