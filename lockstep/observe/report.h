// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/observe/curve.h"
#include "lockstep/observe/metrics_log.h"

namespace lockstep::observe {

// A figure at the top of the page: what one wants to know first.
struct ReportTile {
  std::string label = {};
  std::string value = {};
  std::string note = {};  // small, below; may be empty
};

enum class SeriesStyle {
  kLine,
  kSmoothed,  // the points faint, their moving mean in front
  kPoints     // marks joined by a line: a few values, such as one an epoch
};

struct ReportSeries {
  std::string name = {};
  std::vector<CurvePoint> points = {};
  SeriesStyle style = SeriesStyle::kLine;
  // Of a long curve whose points are means: what lies around them, to be drawn faint.
  std::vector<CurvePoint> extremes = {};
  std::int64_t not_finite = 0;  // points that are left out here
};

struct ReportChart {
  std::string title = {};
  std::vector<ReportSeries> series = {};
  std::string x_name = "step";
  bool wide = false;  // across the page
  bool from_zero = false;
  bool log_y = false;  // where every value that is drawn as a line is positive
};

// counts[truth * classes + predicted].
struct ConfusionMatrix {
  std::vector<std::string> classes = {};
  std::vector<std::int64_t> counts = {};
};

struct ReportPrediction {
  std::string png = {};  // the picture's file, not encoded
  std::string label = {};
  std::string predicted = {};
  double confidence = 0;  // 0 to 1
};

struct ReportSample {
  std::string prompt = {};
  std::string text = {};  // what the model wrote after it
};

// All a report shows. What is empty is left out of the page.
struct ReportData {
  std::string title = {};
  std::string subtitle = {};
  std::vector<ReportTile> tiles = {};
  std::string params_sha256 = {};
  std::string command = {};  // makes the same run again
  std::vector<ReportChart> charts = {};
  ConfusionMatrix confusion = {};
  std::vector<ReportPrediction> predictions = {};
  std::vector<ReportSample> samples = {};
  std::vector<std::pair<std::string, std::string>> config = {};
};

// Loss, metrics, learning rate and throughput, by the names that MetricsRow agrees on. Training
// values are smoothed, held-out ones are points; a loss that falls far has a logarithmic axis.
std::vector<ReportChart> metric_charts(std::span<const MetricsRow> rows);

// The same of rows that come one by one, any number of them, in bounded memory.
class MetricCharts {
 public:
  void add(const MetricsRow& row);
  std::vector<ReportChart> charts() const;

 private:
  std::vector<std::pair<std::string, BoundedCurve>> curves_;  // in the order of their appearance
};

// "data.batch" and its value for each entry of a JSON object, in the order of the keys. Throws
// Corrupt when the text is no object.
std::vector<std::pair<std::string, std::string>> config_rows(std::string_view json);

// One HTML page that needs nothing else: no other file, no network. Throws InvalidArgument when the
// confusion matrix is not square or has a negative count.
std::string render_report(const ReportData& data);

}  // namespace lockstep::observe
