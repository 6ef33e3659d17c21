// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/extents.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::nn {

Ints Extents::spread(const std::string& layer, const char* what, int axes,
                     std::int64_t least) const {
  const auto count = static_cast<std::size_t>(axes);
  if (sizes_.size() != 1 && sizes_.size() != count)
    throw InvalidArgument("{}: {} has {} sizes, expected 1 or {}", layer, what, sizes_.size(),
                          axes);
  for (const std::int64_t size : sizes_)
    if (size < least)
      throw InvalidArgument("{}: {} is {}, expected {} or more", layer, what, size, least);
  return sizes_.size() == count ? sizes_ : Ints(count, sizes_[0]);
}

bool Extents::are_all(std::int64_t size) const {
  return std::all_of(sizes_.begin(), sizes_.end(), [&](std::int64_t s) { return s == size; });
}

std::string Extents::str() const {
  std::string text;
  for (const std::int64_t size : sizes_) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

}  // namespace lockstep::nn
