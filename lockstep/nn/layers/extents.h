// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>

#include "lockstep/ops/attrs.h"

namespace lockstep::nn {

// Sizes along the spatial axes: 3 for all of them, or {3, 5}, one for each.
class Extents {
 public:
  Extents() = default;
  Extents(std::int64_t all) : sizes_{all} {}
  Extents(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}
  Extents(const Ints& sizes) : sizes_(sizes) {}

  bool empty() const { return sizes_.empty(); }
  const Ints& list() const { return sizes_; }
  bool are_all(std::int64_t size) const;
  // One size for each of `axes`. Throws InvalidArgument, beginning with `layer`, for another
  // number of sizes or one below `least`.
  Ints spread(const std::string& layer, const char* what, int axes, std::int64_t least) const;
  // "3x5"
  std::string str() const;

 private:
  Ints sizes_;
};

}  // namespace lockstep::nn
