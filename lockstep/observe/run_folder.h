// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::observe {

// One training run's folder:
//   config.json      what was asked for; written last of what a run begins with
//   classes.json     the classes' names
//   vocabulary.txt   words or characters of text recipes
//   metrics.jsonl    one line a step
//   events/          the same for TensorBoard
//   events.jsonl     what happened to the workers of a job, where anything did
//   checkpoints/     what --resume starts from; history.jsonl has a long run's old evaluations
//   result.json      what came out, once a start has ended
//   report.html      one page to look at
// Whoever trains holds a lock on it; a killed process loses the lock with its life.
class RunFolder {
 public:
  // Makes the folder and its parents. Throws InvalidArgument when it exists and has anything else
  // than what a run leaves that ended before its config.json was written.
  static RunFolder create(const std::string& path);
  // The next free of <parent>/<recipe>-1, -2, ...
  static RunFolder create_next(const std::string& parent, const std::string& recipe);
  // To go on with: throws NotFound when there is no run, InvalidArgument when one is going on.
  static RunFolder resume(const std::string& path);
  // To read only, without the lock.
  static RunFolder open(const std::string& path);

  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }
  std::string config_path() const { return path_ + "/config.json"; }
  std::string classes_path() const { return path_ + "/classes.json"; }
  std::string vocabulary_path() const { return path_ + "/vocabulary.txt"; }
  std::string metrics_path() const { return path_ + "/metrics.jsonl"; }
  std::string events_path() const { return path_ + "/events"; }
  std::string membership_path() const { return path_ + "/events.jsonl"; }
  std::string checkpoints_path() const { return path_ + "/checkpoints"; }
  std::string result_path() const { return path_ + "/result.json"; }
  std::string report_path() const { return path_ + "/report.html"; }

  void write_config(std::string_view json) const;
  std::string read_config() const;
  // A run that never began: all that is in the folder, and the folder where create() made it.
  void remove() const;

 private:
  RunFolder(std::string path, int lock, bool made = false)
      : path_(std::move(path)), lock_(lock), made_(made) {}
  std::string path_;
  int lock_;   // -1: not held
  bool made_;  // the folder was not there before
};

// A key whose values differ; "nothing" where one side has no such key. Nested keys have dots.
struct ConfigDifference {
  std::string key;
  std::string before;
  std::string now;
};

// Of two JSON objects, in the order of the keys. Keys in `ignored` (whole names or the part before
// a dot) may differ: what changes no bit, such as the number of threads. `defaults` (JSON) is what
// a key means that `before` lacks, since there was no such key yet. Throws Corrupt when a text is
// no JSON object.
std::vector<ConfigDifference> compare_configs(std::string_view before, std::string_view now,
                                              std::span<const std::string> ignored = {},
                                              std::string_view defaults = "{}");

// Throws InvalidArgument, naming each differing key with both values, when the run was started with
// another configuration.
void check_same_config(const RunFolder& run, std::string_view now,
                       std::span<const std::string> ignored = {}, std::string_view defaults = "{}");

}  // namespace lockstep::observe
