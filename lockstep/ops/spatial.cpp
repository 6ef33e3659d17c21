// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/spatial.h"

namespace lockstep {

Ints spatial_list(const Ints& given, std::size_t count, std::int64_t none) {
  if (given.empty()) return Ints(count, none);
  return given.size() == 1 ? Ints(count, given[0]) : given;
}

Ints check_spatial_list(const char* op, const char* name, const Ints& given, std::size_t count,
                        std::int64_t none, std::int64_t least) {
  if (given.size() > 1 && given.size() != count)
    throw InvalidArgument("{}: {} has {} entries, expected 1 or {}", op, name, given.size(), count);
  for (std::int64_t value : given)
    if (value < least || value > kMostSpatial)
      throw InvalidArgument(
          "{}: {} is {}, expected at least {}{}", op, name, to_string(AttrValue(given)), least,
          value > kMostSpatial ? fmt::format(" and at most {}", kMostSpatial) : "");
  return spatial_list(given, count, none);
}

std::size_t check_spatial_input(const char* op, const TensorInfo& input) {
  const int rank = input.shape.rank();
  if (rank < 3 || rank > 5)
    throw InvalidArgument(
        "{}: input has shape {}, expected [N, C, spatial...] with 1 to 3 "
        "spatial axes",
        op, input.shape.str());
  if (!is_floating(input.dtype))
    throw InvalidArgument("{}: input is {}, expected a floating dtype", op, name_of(input.dtype));
  for (int axis = 2; axis < rank; ++axis)
    if (input.shape[axis] == 0)
      throw InvalidArgument("{}: input has shape {}, expected spatial sizes of at least 1", op,
                            input.shape.str());
  return static_cast<std::size_t>(rank) - 2;
}

}  // namespace lockstep
