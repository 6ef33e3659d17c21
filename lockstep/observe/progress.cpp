// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

constexpr double kLeastSeconds = 1e-3;  // a shorter time tells no rate
constexpr double kDrawSeconds = 0.1;
constexpr int kBarColumns = 30;
constexpr int kLeastBarColumns = 5;
constexpr const char* kClearLine = "\r\x1b[K";

// Progress that cannot be shown is no reason to stop the work.
void write_standard_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

int standard_error_width() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_smart_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// The rate of the last seconds, so that a slow start is soon forgotten.
class RecentRate {
 public:
  void start(double time, std::int64_t done) {
    marks_.fill({time, done});
    next_ = 0;
  }
  double per_second(double time, std::int64_t done) const {
    const Mark& oldest = marks_[next_];
    const double seconds = time - oldest.time;
    return seconds > 0 ? static_cast<double>(done - oldest.done) / seconds : 0;
  }
  // Once a second at most: the marks span a minute of fast steps, more of slow ones.
  void mark(double time, std::int64_t done) {
    if (time - marks_[(next_ + kMarks - 1) % kMarks].time < 1) return;
    marks_[next_] = {time, done};
    next_ = (next_ + 1) % kMarks;
  }

 private:
  static constexpr std::size_t kMarks = 16;
  struct Mark {
    double time = 0;
    std::int64_t done = 0;
  };
  std::array<Mark, kMarks> marks_{};
  std::size_t next_ = 0;  // the oldest
};

struct NamedValue {
  std::string name;
  double value = 0;
};

// Keeps the strings' memory from call to call.
void assign(std::vector<NamedValue>& to, std::span<const Measure> from) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].name.assign(from[i].name);
    to[i].value = from[i].value;
  }
}

std::string bar_of(double part, int columns) {
  const int filled = std::clamp(static_cast<int>(part * columns), 0, columns);
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < columns) bar += '>';
  bar.resize(static_cast<std::size_t>(columns), ' ');
  return "[" + bar + "]";
}

}  // namespace

ProgressTarget standard_error() {
  return {.write = write_standard_error,
          .now = steady_seconds,
          .width = standard_error_width,
          .terminal = is_smart_terminal(STDERR_FILENO)};
}

ProgressTarget nowhere() { return {}; }

struct Progress::Impl {
  explicit Impl(ProgressTarget target) : out(std::move(target)) {}

  bool silent() const { return !out.write; }
  std::string amount() const;
  std::string rate(double per_second) const;
  std::string measures_text() const;
  std::string tail(double time) const;
  std::string bar_line(double time, int columns) const;
  std::string summary(double time) const;
  void draw(double time);
  void print(double time);
  void show(double time);
  void start(ProgressTask next);
  void end();

  std::mutex mutex;
  ProgressTarget out;
  ProgressTask task;
  std::vector<NamedValue> measures;
  std::int64_t done = 0;
  bool open = false;
  bool drawn = false;  // the cursor stands behind a bar
  double started = 0, next_show = 0;
  RecentRate recent;
};

std::string Progress::Impl::amount() const {
  const bool bytes = task.unit == ProgressUnit::kBytes;
  const auto text = [&](std::int64_t n) {
    return bytes ? format_bytes(static_cast<double>(n)) : std::to_string(n);
  };
  return task.total > 0 ? text(done) + "/" + text(task.total) : text(done);
}

std::string Progress::Impl::rate(double per_second) const {
  if (task.unit == ProgressUnit::kBytes) return format_bytes(per_second) + "/s";
  if (task.samples_per_step == 0) return format_rate(per_second) + " steps/s";
  return format_rate(per_second * static_cast<double>(task.samples_per_step)) + " samples/s";
}

std::string Progress::Impl::measures_text() const {
  std::string text;
  for (const NamedValue& m : measures)
    text += fmt::format("  {} {}", m.name, format_value(m.value));
  return text;
}

// What stands behind the bar.
std::string Progress::Impl::tail(double time) const {
  std::string text = amount() + measures_text();
  const double speed = recent.per_second(time, done);
  if (speed <= 0) return text;
  text += "  " + rate(speed);
  const double left = static_cast<double>(task.total - done) / speed;
  return task.total > 0 ? text + "  " + format_duration(left) + " left" : text;
}

// The bar gives way to the figures where there is little room.
std::string Progress::Impl::bar_line(double time, int columns) const {
  const std::string text = tail(time);
  const int used = static_cast<int>(display_width(task.label) + display_width(text)) + 4;
  const int room = std::min(columns - used, kBarColumns);
  std::string line = task.label + " ";
  if (task.total > 0 && room >= kLeastBarColumns)
    line += bar_of(static_cast<double>(done) / static_cast<double>(task.total), room) + " ";
  return fit_width(line + text, static_cast<std::size_t>(std::max(columns, 0)));
}

std::string Progress::Impl::summary(double time) const {
  const double seconds = time - started;
  std::string line = task.label + "  " + amount() + measures_text();
  if (seconds >= kLeastSeconds && done > task.first)
    line += "  " + rate(static_cast<double>(done - task.first) / seconds);
  return line + "  in " + format_duration(seconds);
}

void Progress::Impl::draw(double time) {
  // The last column stays free: some terminals go to the next line when it is written.
  out.write(kClearLine + bar_line(time, out.width() - 1));
  drawn = true;
  next_show = time + kDrawSeconds;
}

void Progress::Impl::print(double time) {
  out.write(task.label + "  " + tail(time) + "\n");
  next_show = time + out.line_seconds;
}

void Progress::Impl::show(double time) {
  out.terminal ? draw(time) : print(time);
  recent.mark(time, done);
}

void Progress::Impl::start(ProgressTask next) {
  task = std::move(next);
  measures.clear();
  open = true;
  done = task.first;
  started = out.now();
  recent.start(started, done);
  next_show = started + out.line_seconds;
  if (out.terminal) return draw(started);
  const bool bytes = task.unit == ProgressUnit::kBytes;
  out.write(task.label + (task.total > 0 ? "  " + amount() + (bytes ? "" : " steps") : "") + "\n");
}

void Progress::Impl::end() {
  if (!open) return;
  const std::string line = summary(out.now()) + "\n";
  out.write(out.terminal ? kClearLine + line : line);
  open = drawn = false;
}

Progress::Progress(ProgressTarget target) : impl_(std::make_unique<Impl>(std::move(target))) {}

Progress::~Progress() {
  if (impl_->drawn) impl_->out.write("\n");
}

void Progress::begin(ProgressTask task) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->silent()) return;
  impl_->end();
  impl_->start(std::move(task));
}

void Progress::update(std::int64_t done, std::span<const Measure> measures) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->silent() || !impl_->open) return;
  impl_->done = done;
  assign(impl_->measures, measures);
  const double time = impl_->out.now();
  if (time >= impl_->next_show) impl_->show(time);
}

void Progress::finish(std::span<const Measure> measures) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->silent() || !impl_->open) return;
  if (!measures.empty()) assign(impl_->measures, measures);
  impl_->end();
}

void Progress::update(std::int64_t done, std::initializer_list<Measure> measures) {
  update(done, std::span(measures.begin(), measures.size()));
}

void Progress::finish(std::initializer_list<Measure> measures) {
  finish(std::span(measures.begin(), measures.size()));
}

void Progress::message(std::string_view line) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->silent()) return;
  const std::string text = std::string(line) + "\n";
  impl_->out.write(impl_->drawn ? kClearLine + text : text);
  if (std::exchange(impl_->drawn, false)) impl_->draw(impl_->out.now());
}

}  // namespace lockstep::observe
