// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::parallel::detail {

inline constexpr const char* kForward = "#4477aa";
inline constexpr const char* kBackward = "#cc6677";
inline constexpr const char* kUpdate = "#999933";

// Something that takes its time in a row of a timeline.
struct Box {
  double begin = 0.0, end = 0.0;
  const char* colour = "";
  std::string title = {};  // shown when a reader points at it
  std::string text = {};   // inside, where there is room
};
struct Row {
  std::string name;
  std::vector<Box> boxes = {};
};

// As a picture, as wide as `seconds`.
std::string rows_svg(const std::vector<Row>& rows, double seconds);

}  // namespace lockstep::parallel::detail
