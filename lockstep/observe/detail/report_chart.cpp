// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/observe/detail/html.h"
#include "lockstep/observe/text.h"

// A chart is an SVG that is stretched to the place it gets, with lines that keep their width, and
// labels in HTML around it, which keep their size: readable on a phone and on a wall.
namespace lockstep::observe {
namespace {

constexpr std::size_t kMostPoints = 1000;
constexpr std::size_t kSmoothParts = 60;  // the moving mean's window is this part of the curve
constexpr double kBox = 1000;             // the SVG's own units
constexpr int kColours = 4;

// What is drawn of a series, few enough points to draw.
struct Drawn {
  const ReportSeries* series;
  std::vector<CurvePoint> line;
  std::vector<CurvePoint> faint;
  std::size_t not_finite = 0;
};

Drawn prepare(const ReportSeries& series) {
  Drawn drawn{.series = &series, .line = {}, .faint = {}};
  drawn.not_finite = static_cast<std::size_t>(
      series.not_finite + std::ranges::count_if(series.points, [](const CurvePoint& point) {
        return !std::isfinite(point.y);
      }));
  if (series.style == SeriesStyle::kSmoothed) {
    const std::size_t window = series.points.size() / kSmoothParts;
    drawn.line = downsample(smooth(series.points, window), kMostPoints);
    if (window > 1)
      drawn.faint =
          downsample(series.extremes.empty() ? series.points : series.extremes, kMostPoints);
  } else {
    drawn.line = downsample(series.points, kMostPoints);
  }
  return drawn;
}

// From data to the box and back: linear, or the logarithm's.
struct Axis {
  double low = 0, high = 1;
  bool log = false;
  double scaled(double value) const { return log ? std::log10(value) : value; }
  double place(double value) const {  // 0 to 1
    return (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
  }
};

struct Frame {
  Axis x, y;
};

void include(Axis& axis, double value, bool first) {
  axis.low = first ? value : std::min(axis.low, value);
  axis.high = first ? value : std::max(axis.high, value);
}

// Room above and below, so that no line runs along the border.
void widen(Axis& axis) {
  if (axis.log) {
    const double factor = std::max(std::pow(axis.high / axis.low, 0.06), 1.02);
    axis.low /= factor;
    axis.high *= factor;
    return;
  }
  double margin = 0.06 * (axis.high - axis.low);
  if (!(margin > 0)) margin = axis.high != 0 ? 0.1 * std::abs(axis.high) : 1;
  const bool from_zero = axis.low >= 0 && axis.low < 3 * margin;
  axis.low = from_zero ? 0 : axis.low - margin;
  axis.high += margin;
}

// A curve's first steps, or one outlier, would press the rest of it flat: they may leave the frame.
void include_most(Axis& axis, const Drawn& drawn, bool first) {
  std::vector<double> values;
  for (const CurvePoint& point : drawn.line) values.push_back(point.y);
  std::ranges::sort(values);
  const bool cut = drawn.series->style == SeriesStyle::kSmoothed;
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  include(axis, at(cut ? 0.05 : 0), first);
  include(axis, at(cut ? 0.99 : 1), false);
}

Frame frame_of(const std::vector<Drawn>& all, const ReportChart& chart) {
  Frame frame;
  for (std::size_t i = 0; i < all.size(); ++i) {
    include(frame.x, all[i].line.front().x, i == 0);
    include(frame.x, all[i].line.back().x, false);
    include_most(frame.y, all[i], i == 0);
  }
  if (chart.from_zero) frame.y.low = std::min(frame.y.low, 0.0);
  frame.y.log = chart.log_y && frame.y.low > 0;
  widen(frame.y);
  const double margin = 0.012 * (frame.x.high - frame.x.low);
  frame.x.low -= margin > 0 ? margin : 1;
  frame.x.high += margin > 0 ? margin : 1;
  return frame;
}

// The largest of 1, 2, 5 times a power of ten with at least four steps in the width.
double nice_step(double width) {
  const double raw = width / 4;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power <= raw) return factor * power;
  return power;
}

std::vector<double> log_ticks(const Axis& axis) {
  const int decades = static_cast<int>(std::log10(axis.high / axis.low));
  std::vector<double> ticks;
  for (int power = -300; power <= 300; ++power)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, power);
      const bool wanted = decades < 2 || (factor == 1 && power % (1 + decades / 6) == 0);
      if (wanted && tick >= axis.low && tick <= axis.high) ticks.push_back(tick);
    }
  return ticks;
}

std::vector<double> ticks_of(const Axis& axis) {
  if (axis.log) return log_ticks(axis);
  const double step = nice_step(axis.high - axis.low);
  std::vector<double> ticks;
  for (double i = std::ceil(axis.low / step); i * step <= axis.high; ++i) {
    ticks.push_back(i * step);
    if (ticks.size() > 20) break;  // steps that rounding has eaten
  }
  return ticks;
}

std::string tick_label(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:g}k", value / 1e3);
  if (size >= 1000) return format_count(std::llround(value));
  return fmt::format("{:.4g}", size < 1e-12 ? 0.0 : value);
}

double box_x(const Frame& frame, double x) { return kBox * frame.x.place(x); }
// Within a screen's distance of the box: no renderer likes infinities.
double box_y(const Frame& frame, double y) {
  if (frame.y.log && y <= 0) return 2 * kBox;
  return std::clamp(kBox * (1 - frame.y.place(y)), -kBox, 2 * kBox);
}

std::string path_of(const Frame& frame, std::span<const CurvePoint> points) {
  std::string path;
  for (const CurvePoint& point : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", box_x(frame, point.x),
                        box_y(frame, point.y));
  return path;
}

// Lines of no length with round ends stay round when the box is stretched.
std::string marks_of(const Frame& frame, std::span<const CurvePoint> points) {
  std::string path;
  for (const CurvePoint& point : points)
    path += fmt::format("M{:.1f} {:.1f}h0", box_x(frame, point.x), box_y(frame, point.y));
  return path;
}

std::string path_element(const char* kind, std::size_t index, const std::string& path) {
  return fmt::format("<path class=\"{} c{}\" d=\"{}\" />", kind, index % kColours, path);
}

std::string draw(const Frame& frame, const Drawn& drawn, std::size_t index) {
  std::string svg;
  if (drawn.faint.size() > 1) svg += path_element("faint", index, path_of(frame, drawn.faint));
  if (drawn.line.size() > 1) svg += path_element("line", index, path_of(frame, drawn.line));
  if (drawn.series->style == SeriesStyle::kPoints || drawn.line.size() == 1)
    svg += path_element("mark", index, marks_of(frame, drawn.line));
  return svg;
}

std::string grid(const Frame& frame) {
  std::string path;
  for (const double tick : ticks_of(frame.y))
    path += fmt::format("M0 {:.1f}H{}", box_y(frame, tick), kBox);
  return fmt::format("<path class=\"grid\" d=\"{}\" />", path);
}

std::string labels(const Frame& frame) {
  std::string html;
  for (const double tick : ticks_of(frame.y))
    html += fmt::format("<span class=\"y\" style=\"top:{:.2f}%\">{}</span>",
                        100 * (1 - frame.y.place(tick)), tick_label(tick));
  for (const double tick : ticks_of(frame.x))
    html += fmt::format("<span class=\"x\" style=\"left:{:.2f}%\">{}</span>",
                        100 * frame.x.place(tick), tick_label(tick));
  return html;
}

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "\"";
}

std::string json_series(const Drawn& drawn) {
  std::string points;
  for (const CurvePoint& point : drawn.line)
    points += fmt::format("{}[{:.8g},{:.5g}]", points.empty() ? "" : ",", point.x, point.y);
  return fmt::format("{{\"name\":{},\"points\":[{}]}}", json_text(drawn.series->name), points);
}

// What the page's script needs for the values under the pointer.
std::string chart_json(const Frame& frame, const std::vector<Drawn>& all,
                       const std::string& x_name) {
  std::string series;
  for (const Drawn& drawn : all) series += (series.empty() ? "" : ",") + json_series(drawn);
  return fmt::format("{{\"x\":{},\"x0\":{:.8g},\"x1\":{:.8g},\"series\":[{}]}}", json_text(x_name),
                     frame.x.low, frame.x.high, series);
}

std::string legend(const std::vector<Drawn>& all) {
  std::string html;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double last = all[i].line.back().y;
    html += fmt::format("<span class=\"key c{}\">{} <b>{}</b></span>", i % kColours,
                        all.size() == 1 ? "last" : escape_html(all[i].series->name),
                        format_value(last));
  }
  return html;
}

std::string notes(const std::vector<Drawn>& all, const Frame& frame) {
  std::size_t not_finite = 0;
  for (const Drawn& drawn : all) not_finite += drawn.not_finite;
  std::string html = frame.y.log ? "<span class=\"note\">log scale</span>" : "";
  if (not_finite > 0)
    html += fmt::format("<span class=\"note bad\">{} not finite, not drawn</span>",
                        format_count(static_cast<std::int64_t>(not_finite)));
  return html;
}

}  // namespace

std::string render_chart(const ReportChart& chart) {
  std::vector<Drawn> all;
  for (const ReportSeries& series : chart.series)
    if (Drawn drawn = prepare(series); !drawn.line.empty()) all.push_back(std::move(drawn));
  if (all.empty()) return "";
  const Frame frame = frame_of(all, chart);
  std::string curves;
  for (std::size_t i = 0; i < all.size(); ++i) curves += draw(frame, all[i], i);
  return fmt::format(
      "<figure class=\"card{}\"><figcaption><h3>{}</h3>{}{}</figcaption>"
      "<div class=\"plot\" data-chart=\"{}\"><div class=\"area\">"
      "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">{}{}</svg>{}<div class=\"rule\"></div></div>"
      "<div class=\"tip\"></div></div><p class=\"axis\">{}</p></figure>\n",
      chart.wide ? " wide" : "", escape_html(chart.title), legend(all), notes(all, frame),
      escape_html(chart_json(frame, all, chart.x_name)), kBox, kBox, escape_html(chart.title),
      grid(frame), curves, labels(frame), escape_html(chart.x_name));
}

}  // namespace lockstep::observe
