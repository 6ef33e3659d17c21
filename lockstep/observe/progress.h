// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::observe {

// Where progress is shown. Everything of the outside is passed in, so that a test can be a
// terminal.
struct ProgressTarget {
  std::function<void(std::string_view)> write = {};  // none: nothing is shown
  std::function<double()> now = {};                  // seconds that never go back
  std::function<int()> width = {};                   // columns, asked for at each drawing
  bool terminal = false;                             // a bar; else plain lines
  double line_seconds = 10;                          // plain lines: at least this long between two
};

// Standard error; a terminal when isatty says so and TERM is not "dumb".
ProgressTarget standard_error();
// Shows nothing.
ProgressTarget nowhere();

// A figure beside the bar: "loss 0.0412".
struct Measure {
  std::string_view name;
  double value = 0;
};

enum class ProgressUnit { kSteps, kBytes };

struct ProgressTask {
  std::string label = {};  // "epoch 2/5", "mnist.tgz"
  std::int64_t total = 0;  // 0: nobody knows
  std::int64_t first = 0;  // where a resumed task begins
  ProgressUnit unit = ProgressUnit::kSteps;
  std::int64_t samples_per_step = 0;  // 0: the rate is in steps/s
};

// Shows how far long work is. On a terminal one line is drawn again and again, ten times a second
// at most:
//   epoch 2/5 [=====>    ] 312/468  loss 0.0412  acc 0.9870  5,741 samples/s  0:21 left
// elsewhere plain lines without control characters: at a task's start and end, and now and then.
// Any thread may call; a call that draws nothing takes well under a microsecond.
class Progress {
 public:
  explicit Progress(ProgressTarget target);
  // A task still open is left where it is, and what is written next starts on a new line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Ends a task that is still open.
  void begin(ProgressTask task);
  // `done` counts from the task's 0, and `first` is included.
  void update(std::int64_t done, std::span<const Measure> measures = {});
  void update(std::int64_t done, std::initializer_list<Measure> measures);
  // The last line of the task, which stays: how far, the measures, the rate, the time taken.
  // `measures` replaces the last ones where it is not empty.
  void finish(std::span<const Measure> measures = {});
  void finish(std::initializer_list<Measure> measures);
  // A line of its own, above the bar where there is one.
  void message(std::string_view line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::observe
