// SPDX-License-Identifier: Apache-2.0
#include "bench/train_command.h"

#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/process.h"

namespace lockstep::bench {
namespace {

constexpr std::chrono::minutes kDeadline{30};

// A run's folder, which nobody looks at.
class PassingFolder {
 public:
  PassingFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw IoError("{}: cannot be made", pattern);
    path_ = pattern;
  }
  ~PassingFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Json train_once(const std::string& bench, const TrainCase& what, std::int64_t steps,
                const std::vector<std::string>& words) {
  const PassingFolder folder;
  const std::string count = std::to_string(steps);
  std::vector<std::string> command{program_path(),
                                   "train",
                                   what.model,
                                   "--data",
                                   "synthetic",
                                   "--steps",
                                   count,
                                   "--global-batch",
                                   std::to_string(what.batch),
                                   "--eval-every",
                                   count,
                                   "--checkpoint-every",
                                   count,
                                   "--out",
                                   folder.path(),
                                   "--no-report",
                                   "--quiet",
                                   "--json"};
  command.insert(command.end(), words.begin(), words.end());
  const ProcessResult result = run_process(command, {.deadline = kDeadline});
  const Json row = Json::parse(last_line(result.output), nullptr, false);
  if (result.status != 0 || !row.is_object())
    throw IoError("{}: {} {}: ended with status {}: {}", bench, what.model, fmt::join(words, " "),
                  result.status, last_line(result.errors));
  return row;
}

std::int64_t steps_for(double seconds, const std::string& bench, const TrainCase& what,
                       const std::vector<std::string>& words) {
  const double rate = train_once(bench, what, kFewestSteps, words)["samples_per_s"];
  const double steps = std::ceil(seconds * rate / static_cast<double>(what.batch));
  return std::max(kFewestSteps, static_cast<std::int64_t>(steps));
}

}  // namespace lockstep::bench
