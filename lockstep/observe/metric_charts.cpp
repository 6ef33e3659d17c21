// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "lockstep/observe/report.h"

namespace lockstep::observe {
namespace {

constexpr std::string_view kHeldOut = "val_";
// A loss that falls further than this is a flat line on a linear axis.
constexpr double kLogRatio = 20;

bool is_held_out(std::string_view name) { return name.starts_with(kHeldOut); }

std::string base_name(std::string_view name) {
  return std::string(is_held_out(name) ? name.substr(kHeldOut.size()) : name);
}

// Of a job of several workers: where the time of its steps went.
bool is_time(const std::string& name) { return name == "compute_s" || name == "wait_s"; }

// What is a number in a row, and no curve.
bool is_left_out(const std::string& name) {
  return name == "bytes_sent" || name == "slowest_rank" || name == "slowest_s";
}

// The loss first, then metrics as they come, then what only describes the run.
int rank(const std::string& name) {
  if (name == "loss") return 0;
  if (name == "learning_rate") return 2;
  return name == "samples_per_s" || is_time(name) ? 3 : 1;
}

std::string title_of(const std::string& name) {
  if (name == "samples_per_s") return "Throughput, samples/s";
  if (name == "compute_s") return "Computing in a step, s";
  if (name == "wait_s") return "Waiting for others in a step, s";
  std::string title = name;
  std::ranges::replace(title, '_', ' ');
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z')
    title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

SeriesStyle style_of(const std::string& name) {
  if (is_held_out(name)) return SeriesStyle::kPoints;
  return name == "learning_rate" ? SeriesStyle::kLine : SeriesStyle::kSmoothed;
}

ReportSeries& series_of(ReportChart& chart, const std::string& name) {
  const std::string shown = is_held_out(name)            ? "validation"
                            : rank(base_name(name)) >= 2 ? base_name(name)
                                                         : "training";
  const auto found = std::ranges::find(chart.series, shown, &ReportSeries::name);
  if (found != chart.series.end()) return *found;
  chart.series.push_back({.name = shown, .points = {}, .style = style_of(name)});
  return chart.series.back();
}

struct NamedChart {
  std::string name;
  ReportChart chart;
};

NamedChart& chart_of(std::vector<NamedChart>& charts, const std::string& name) {
  const auto found = std::ranges::find(charts, name, &NamedChart::name);
  if (found != charts.end()) return *found;
  charts.push_back({name, {.title = title_of(name), .series = {}}});
  return charts.back();
}

// A mean says nothing of a single point: where points are what is looked at, the extremes stand for
// them.
void fill(ReportSeries& series, const BoundedCurve& curve) {
  const bool smoothed = series.style == SeriesStyle::kSmoothed;
  series.points = smoothed ? curve.means() : curve.extremes();
  if (smoothed && !curve.has_all()) series.extremes = curve.extremes();
  series.not_finite = curve.not_finite();
}

bool falls_far(const ReportChart& chart) {
  double low = INFINITY, high = 0;
  for (const ReportSeries& series : chart.series)
    for (const CurvePoint& point : smooth(series.points, series.points.size() / 60)) {
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  return low > 0 && std::isfinite(low) && high > kLogRatio * low;
}

}  // namespace

void MetricCharts::add(const MetricsRow& row) {
  for (const auto& [name, value] : row.values) {
    if (is_left_out(name)) continue;
    auto found = std::ranges::find(curves_, name, &std::pair<std::string, BoundedCurve>::first);
    if (found == curves_.end()) found = curves_.insert(curves_.end(), {name, BoundedCurve()});
    found->second.add({static_cast<double>(row.step), value});
  }
}

std::vector<ReportChart> metric_charts(std::span<const MetricsRow> rows) {
  MetricCharts charts;
  for (const MetricsRow& row : rows) charts.add(row);
  return charts.charts();
}

std::vector<ReportChart> MetricCharts::charts() const {
  std::vector<NamedChart> found;
  for (const auto& [name, curve] : curves_)
    fill(series_of(chart_of(found, base_name(name)).chart, name), curve);
  std::ranges::stable_sort(found, {}, [](const NamedChart& c) { return rank(c.name); });
  std::vector<ReportChart> charts;
  for (NamedChart& named : found) {
    named.chart.wide = rank(named.name) == 0 && found.size() % 2 == 1;  // no gap in two columns
    named.chart.from_zero = rank(named.name) >= 2;
    named.chart.log_y = rank(named.name) == 0 && falls_far(named.chart);
    charts.push_back(std::move(named.chart));
  }
  return charts;
}

}  // namespace lockstep::observe
