// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::observe {

// A line of metrics.jsonl. Names by agreement, so that the report knows what to draw: "loss",
// "accuracy" and other metrics of training batches; the same with "val_" in front for held-out
// data; "learning_rate"; "samples_per_s".
struct MetricsRow {
  std::int64_t step = 0;  // steps finished: the first one writes 1
  // The epoch that the last finished step belongs to, from 1; the same for a step's own row and for
  // an evaluation after it.
  std::int64_t epoch = 0;
  double time = 0;  // seconds of training so far, over all starts
  std::vector<std::pair<std::string, double>> values = {};
};

// Is told of each line that is no row, and of its number; such lines are passed over.
using WarnOfLine = std::function<void(const std::string&)>;

// {"step":1,"epoch":1,"time":0.12,"loss":2.3}: one object a line; numbers that are not finite are
// null, which is what JSON has for them.
class MetricsLog {
 public:
  // A new log; what was in the file is gone. Throws IoError.
  static MetricsLog create(const std::string& path);
  // Goes on after `steps` finished steps: rows of later ones are cut off, and so is a last line
  // that was half written. No file yet is the same as an empty one. Throws IoError.
  static MetricsLog resume(const std::string& path, std::int64_t steps,
                           const WarnOfLine& warn = {});

  ~MetricsLog();
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&&) = delete;

  // The line is with the operating system on return; a killed process loses nothing. A row that
  // cannot be written throws IoError and leaves no piece of itself.
  void append(const MetricsRow& row);
  // Of the last row that was kept; 0 in a new log.
  double time_before() const { return time_before_; }

 private:
  MetricsLog(std::string path, int descriptor, std::int64_t size);
  std::string path_;
  int descriptor_;
  std::int64_t size_;
  double time_before_ = 0;
};

// Calls `take` with each row, in memory that does not grow with the file; a half-written last line
// is left out. Throws NotFound, IoError.
void each_metrics_row(const std::string& path, const std::function<void(const MetricsRow&)>& take,
                      const WarnOfLine& warn = {});
// All of them at once.
std::vector<MetricsRow> read_metrics(const std::string& path, const WarnOfLine& warn = {});

}  // namespace lockstep::observe
