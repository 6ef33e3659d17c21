// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Plot, ALineFallsFromTheTopLeftToTheBottomRight) {
  const std::vector<CurvePoint> points = {{1, 4}, {8, 1}};
  EXPECT_EQ(plot_curve(points, {.columns = 14, .rows = 2}),
            "4.000 \u2809\u2812\u2824\u28C0\u2800\u2800\u2800\u2800\n"
            "1.000 \u2800\u2800\u2800\u2800\u2809\u2812\u2824\u28C0\n"
            "      step 1 8\n");
}

TEST(Plot, HasTheSizeThatWasAskedFor) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 5000; ++i) points.push_back({double(i), std::cos(i * 0.01)});
  for (const int columns : {30, 60, 200}) {
    const auto lines = lines_of(plot_curve(points, {.columns = columns, .rows = 6}));
    ASSERT_EQ(lines.size(), 7u);
    for (const std::string& line : lines)
      EXPECT_EQ(display_width(line), static_cast<std::size_t>(columns));
  }
}

TEST(Plot, OnePointAndEqualValuesAreDrawn) {
  EXPECT_EQ(lines_of(plot_curve(std::vector<CurvePoint>{{1, 2}})).size(), 9u);
  EXPECT_EQ(lines_of(plot_curve(std::vector<CurvePoint>{{1, 2}, {5, 2}})).size(), 9u);
}

TEST(Plot, OfNothingFiniteIsEmpty) {
  EXPECT_EQ(plot_curve({}), "");
  EXPECT_EQ(plot_curve(std::vector<CurvePoint>{{1, NAN}, {2, INFINITY}}), "");
}

TEST(Plot, ATinyScreenIsMadeBigEnough) {
  EXPECT_EQ(
      lines_of(plot_curve(std::vector<CurvePoint>{{1, 2}, {2, 3}}, {.columns = -5, .rows = 0}))
          .size(),
      3u);
}

}  // namespace
}  // namespace lockstep::observe
