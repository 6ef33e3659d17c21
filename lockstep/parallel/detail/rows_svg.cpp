// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/detail/rows_svg.h"

#include <fmt/core.h>

#include <algorithm>

namespace lockstep::parallel::detail {

std::string rows_svg(const std::vector<Row>& rows, double seconds) {
  constexpr double kWidth = 1000.0, kRow = 28.0, kLeft = 80.0, kRoomForText = 14.0;
  const double scale = kWidth / std::max(seconds, 1e-12);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n",
      kWidth + kLeft + 10.0, kRow * static_cast<double>(rows.size()) + 10.0);
  double top = 5.0;
  for (const Row& row : rows) {
    svg += fmt::format("<text x=\"5\" y=\"{:.1f}\">{}</text>\n", top + 16.0, row.name);
    for (const Box& box : row.boxes) {
      const double left = kLeft + box.begin * scale, width = (box.end - box.begin) * scale;
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"22\" fill=\"{}\" "
          "stroke=\"white\" stroke-width=\"0.5\"><title>{}</title></rect>\n",
          left, top, width, box.colour, box.title);
      if (width > kRoomForText && !box.text.empty())
        svg += fmt::format(
            "<text x=\"{:.2f}\" y=\"{:.1f}\" fill=\"white\" text-anchor=\"middle\">{}</text>\n",
            left + width / 2.0, top + 15.0, box.text);
    }
    top += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep::parallel::detail
