// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "lockstep/base/temporary_files.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".ckpt";
constexpr std::string_view kParameter = "param/";
constexpr std::string_view kResidual = "residual";

std::string path_of(const std::string& folder, std::int64_t step) {
  return fmt::format("{}/step-{:08}.ckpt", folder, step);
}

// The step in a file's name, or nothing when it is no checkpoint's name.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return {};
  const std::string_view digits =
      name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0) return {};
  return step;
}

template <class T>
json json_of(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

template <class T>
std::optional<T> optional_from(const json& value) {
  return value.is_null() ? std::optional<T>() : value.get<T>();
}

std::string metadata_of(const Checkpoint& checkpoint) {
  return json{{"format", kFormat},
              {"step", checkpoint.step},
              {"seed", checkpoint.seed},
              {"configuration", json::parse(checkpoint.configuration)},
              {"training", json::parse(checkpoint.training)},
              {"metric", json_of(checkpoint.metric)},
              {"best_step", json_of(checkpoint.best_step)},
              {"best_metric", json_of(checkpoint.best_metric)},
              {"params_sha256", checkpoint.params_sha256}}
      .dump();
}

// Deeper than anything that is written; what nests without end would exhaust the stack.
constexpr int kDeepest = 64;

json parse_metadata(const std::string& path, const std::string& text) {
  const auto check_depth = [&path](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw Corrupt("{}: its metadata nests deeper than {}", path, kDeepest);
    return true;
  };
  return json::parse(text, check_depth);
}

Checkpoint from_metadata(const std::string& path, const json& metadata) {
  if (metadata.at("format") != kFormat)
    throw Corrupt("{}: is a checkpoint of format {}, this build reads {}", path,
                  metadata.at("format").dump(), kFormat);
  Checkpoint checkpoint;
  checkpoint.step = metadata.at("step");
  checkpoint.seed = metadata.at("seed");
  if (checkpoint.step < 0)
    throw Corrupt("{}: is of step {}, expected 0 or more", path, checkpoint.step);
  checkpoint.configuration = metadata.at("configuration").dump();
  checkpoint.training = metadata.at("training").dump();
  checkpoint.metric = optional_from<double>(metadata.at("metric"));
  checkpoint.best_step = optional_from<std::int64_t>(metadata.at("best_step"));
  checkpoint.best_metric = optional_from<double>(metadata.at("best_metric"));
  checkpoint.params_sha256 = metadata.at("params_sha256");
  return checkpoint;
}

io::Archive archive_of(const Checkpoint& checkpoint) {
  io::Archive archive{.metadata = metadata_of(checkpoint), .tensors = {}};
  for (const auto& [name, tensor] : checkpoint.parameters)
    archive.tensors.emplace_back(std::string(kParameter) + name, tensor);
  for (const auto& slot : checkpoint.slots) archive.tensors.push_back(slot);
  for (const auto& residual : checkpoint.residuals) archive.tensors.push_back(residual);
  return archive;
}

}  // namespace

// The thread in the background and what it shares with the caller.
class CheckpointStore::Writer {
 public:
  Writer(const std::string& folder, const CheckpointOptions& options)
      : folder_(folder), options_(options), thread_([this](std::stop_token stop) { run(stop); }) {}

  ~Writer() {
    thread_.request_stop();
    thread_.join();
  }

  void hand_over(Checkpoint checkpoint) {
    wait();
    const std::lock_guard lock(mutex_);
    next_ = std::move(checkpoint);
    changed_.notify_all();
  }

  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !next_; });
    return !failed_;
  }

  // What went wrong since the last call.
  std::vector<std::string> take_warnings() {
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings_, {});
  }

  // As a checkpoint that was read says.
  void set_best(const Checkpoint& checkpoint) {
    best_step_ = checkpoint.best_step;
    best_metric_ = checkpoint.best_metric;
  }

 private:
  // `next_` stays set while it is written: it says that something is on its way.
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return next_.has_value(); })) {
      lock.unlock();
      const std::string problem = write(*next_);
      lock.lock();
      failed_ = !problem.empty();
      if (failed_) warnings_.push_back(problem);
      next_.reset();
      changed_.notify_all();
    }
  }

  // Empty, or what went wrong.
  std::string write(Checkpoint& checkpoint) {
    try {
      set_best_of(checkpoint);
      checkpoint.params_sha256 = io::tensors_sha256(checkpoint.parameters);
      fs::create_directories(folder_);
      remove_temporaries(folder_,
                         [](const std::string& name) { return step_of(name).has_value(); });
      io::write_archive(path_of(folder_, checkpoint.step), archive_of(checkpoint));
      set_best(checkpoint);
      prune(checkpoint.step);
      return {};
    } catch (const std::exception& error) {
      return fmt::format("checkpoint of step {} is not written: {}", checkpoint.step, error.what());
    }
  }

  void set_best_of(Checkpoint& checkpoint) const {
    const bool better = checkpoint.metric && is_better(*checkpoint.metric, checkpoint.maximize);
    checkpoint.best_step = better ? checkpoint.step : best_step_;
    checkpoint.best_metric = better ? checkpoint.metric : best_metric_;
  }

  bool is_better(double metric, bool maximize) const {
    if (std::isnan(metric)) return false;
    if (!best_metric_) return true;
    return maximize ? metric > *best_metric_ : metric < *best_metric_;
  }

  // Later files than the one just written are of a run that went further before: they are not
  // counted, or a bad one among them would take a good one's place.
  void prune(std::int64_t step) const {
    std::vector<CheckpointFile> files = list_checkpoints(folder_);
    std::erase_if(files, [&](const CheckpointFile& file) { return file.step > step; });
    const auto count = static_cast<std::int64_t>(files.size());
    for (std::int64_t i = 0; i < count - std::max<std::int64_t>(1, options_.keep_last); ++i) {
      const CheckpointFile& file = files[static_cast<std::size_t>(i)];
      std::error_code ignored;
      if (!options_.keep_best || file.step != best_step_) fs::remove(file.path, ignored);
    }
  }

  const std::string& folder_;
  const CheckpointOptions& options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Checkpoint> next_;
  std::vector<std::string> warnings_;
  bool failed_ = false;
  std::optional<std::int64_t> best_step_;
  std::optional<double> best_metric_;
  std::jthread thread_;
};

CheckpointStore::CheckpointStore(std::string folder, CheckpointOptions options)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      writer_(std::make_unique<Writer>(folder_, options_)) {}

CheckpointStore::~CheckpointStore() { writer_->wait(); }

void CheckpointStore::write(Checkpoint checkpoint) {
  writer_->hand_over(std::move(checkpoint));
  tell_warnings();
}

bool CheckpointStore::wait() {
  const bool good = writer_->wait();
  tell_warnings();
  return good;
}

void CheckpointStore::tell_warnings() {
  for (const std::string& warning : writer_->take_warnings())
    if (options_.warn) options_.warn(warning);
}

std::vector<CheckpointFile> CheckpointStore::list() const { return list_checkpoints(folder_); }

std::optional<Checkpoint> CheckpointStore::load_newest() {
  wait();
  const std::vector<CheckpointFile> files = list();
  std::string problems;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      Checkpoint checkpoint = read_checkpoint(file->path);
      writer_->set_best(checkpoint);
      return checkpoint;
    } catch (const Error& error) {
      problems += fmt::format("{}{}", problems.empty() ? "" : "; ", error.what());
      if (options_.warn && file + 1 != files.rend())
        options_.warn(fmt::format("{}; taking the checkpoint before it", error.what()));
    }
  }
  if (!problems.empty()) throw Corrupt("{}: no checkpoint is good: {}", folder_, problems);
  return {};
}

std::vector<CheckpointFile> list_checkpoints(const std::string& folder) {
  std::vector<CheckpointFile> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (const auto step = step_of(entry.path().filename().string()))
      files.push_back({*step, entry.path().string()});
  std::sort(files.begin(), files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.step < b.step; });
  return files;
}

Checkpoint read_checkpoint(const std::string& path) {
  io::Archive archive = io::read_archive(path);
  try {
    Checkpoint checkpoint = from_metadata(path, parse_metadata(path, archive.metadata));
    for (auto& [name, tensor] : archive.tensors) {
      const bool is_parameter = name.starts_with(kParameter);
      if (is_parameter) name.erase(0, kParameter.size());
      auto& rest = name.starts_with(kResidual) ? checkpoint.residuals : checkpoint.slots;
      (is_parameter ? checkpoint.parameters : rest)
          .emplace_back(std::move(name), std::move(tensor));
    }
    return checkpoint;
  } catch (const json::exception&) {
    throw Corrupt("{}: is no checkpoint: its metadata does not tell the step and the seed", path);
  }
}

}  // namespace lockstep::train
