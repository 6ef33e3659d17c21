// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/observe/detail/append.h"
#include "lockstep/observe/detail/line_reader.h"

namespace lockstep::observe {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw IoError("{}: {}: {}", path, what, std::strerror(errno));
}

int open_log(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (descriptor < 0) fail(path, "cannot open");
  return descriptor;
}

Json number_to_json(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

std::string line_of(const MetricsRow& row) {
  Json json = {{"step", row.step}, {"epoch", row.epoch}, {"time", number_to_json(row.time)}};
  for (const auto& [name, value] : row.values) json[name] = number_to_json(value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

double number_of(const Json& value) {
  return value.is_number() ? value.get<double>() : std::nan("");
}

std::optional<MetricsRow> parse_row(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    return std::nullopt;
  MetricsRow row{.step = json["step"].get<std::int64_t>()};
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    if (name == "epoch" && value.is_number_integer()) {
      row.epoch = value.get<std::int64_t>();
    } else if (name == "time") {
      row.time = number_of(value);
    } else if (value.is_number() || value.is_null()) {
      row.values.emplace_back(name, number_of(value));
    }
  }
  return row;
}

// Calls take(row, where its line ends) until it returns false. What the last line holds may be
// anything: the machine stopped while it was written. Any other that is damaged is told about.
template <class Take>
void take_rows(const std::string& path, const WarnOfLine& warn, Take&& take) {
  LineReader reader(path);
  for (std::size_t number = 1; reader.next(); ++number) {
    const std::optional<MetricsRow> row = parse_row(reader.line());
    if (!row && reader.is_last()) return;
    if (!row && warn)
      warn(fmt::format("{}: line {} is not a JSON object with a step; left out", path, number));
    if (row && !take(*row, reader.end())) return;
  }
}

}  // namespace

MetricsLog::MetricsLog(std::string path, int descriptor, std::int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

MetricsLog::MetricsLog(MetricsLog&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      time_before_(other.time_before_) {}

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

MetricsLog MetricsLog::create(const std::string& path) {
  return {path, open_log(path, O_TRUNC), 0};
}

MetricsLog MetricsLog::resume(const std::string& path, std::int64_t steps, const WarnOfLine& warn) {
  std::size_t kept = 0;
  double time = 0;
  const int descriptor = open_log(path, 0);
  MetricsLog log(path, descriptor, 0);
  take_rows(path, warn, [&](const MetricsRow& row, std::size_t end) {
    if (row.step > steps) return false;
    kept = end;
    if (std::isfinite(row.time)) time = row.time;
    return true;
  });
  log.size_ = static_cast<std::int64_t>(kept);
  log.time_before_ = time;
  if (::ftruncate(log.descriptor_, log.size_) != 0) fail(path, "cannot cut off old rows");
  return log;
}

void MetricsLog::append(const MetricsRow& row) {
  append_whole(descriptor_, size_, line_of(row), path_);
}

void each_metrics_row(const std::string& path, const std::function<void(const MetricsRow&)>& take,
                      const WarnOfLine& warn) {
  take_rows(path, warn, [&](const MetricsRow& row, std::size_t) {
    take(row);
    return true;
  });
}

std::vector<MetricsRow> read_metrics(const std::string& path, const WarnOfLine& warn) {
  std::vector<MetricsRow> rows;
  each_metrics_row(
      path, [&](const MetricsRow& row) { rows.push_back(row); }, warn);
  return rows;
}

}  // namespace lockstep::observe
