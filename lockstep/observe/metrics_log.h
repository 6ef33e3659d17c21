// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::observe {

// A line of metrics.jsonl. Names by agreement, so that the report knows what to draw: "loss",
// "accuracy" and other metrics of training batches; the same with "val_" in front for held-out
// data; "learning_rate"; "samples_per_s".
struct MetricsRow {
  std::int64_t step = 0;  // steps finished: the first one writes 1
  std::int64_t epoch = 0;
  double time = 0;  // seconds of training so far
  std::vector<std::pair<std::string, double>> values = {};
};

// {"step":1,"epoch":1,"time":0.12,"loss":2.3}: one object a line; numbers that are not finite are
// null, which is what JSON has for them.
class MetricsLog {
 public:
  // A new log; what was in the file is gone. Throws IoError.
  static MetricsLog create(const std::string& path);
  // Goes on after `steps` finished steps: rows of later ones are cut off, and so is a last line
  // that was half written. No file yet is the same as an empty one. Throws Corrupt, IoError.
  static MetricsLog resume(const std::string& path, std::int64_t steps);

  ~MetricsLog();
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&&) = delete;

  // The line is with the operating system on return; a killed process loses nothing. A row that
  // cannot be written throws IoError and leaves no piece of itself.
  void append(const MetricsRow& row);

 private:
  MetricsLog(std::string path, int descriptor, std::int64_t size);
  std::string path_;
  int descriptor_;
  std::int64_t size_;
};

// All rows; a half-written last line is left out. Throws NotFound, IoError, Corrupt (with the
// line).
std::vector<MetricsRow> read_metrics(const std::string& path);

}  // namespace lockstep::observe
