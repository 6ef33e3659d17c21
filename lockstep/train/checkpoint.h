// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/io/archive.h"
#include "lockstep/train/snapshot.h"

namespace lockstep::train {

// Everything that a run needs to go on as if it had never stopped.
struct Checkpoint : Snapshot {
  std::uint64_t seed = 0;
  std::string configuration = "{}";   // JSON: what must be the same to go on
  std::optional<double> metric = {};  // of the evaluation at this step, where there was one
  bool maximize = true;               // a larger metric is better
  // Filled by the store.
  std::optional<std::int64_t> best_step = {};
  std::optional<double> best_metric = {};
  std::string params_sha256 = {};
};

struct CheckpointOptions {
  std::int64_t keep_last = 3;
  bool keep_best = true;  // and the one with the best metric
  // Called by the thread that calls the store, with one line.
  std::function<void(const std::string&)> warn = {};
};

struct CheckpointFile {
  std::int64_t step = 0;
  std::string path;
};

// A folder of step-00001234.ckpt files (io/archive.h). Writing goes on in the background: one
// thread, at most one checkpoint on its way. A write that fails is a warning, told by the next
// call, and leaves the files that were there. Threads must take turns in calling.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string folder, CheckpointOptions options = {});
  // Ends when the write on its way has.
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  // Takes tensors that nobody changes any more. Waits for the write before this one, if there is
  // one on its way.
  void write(Checkpoint checkpoint);
  // Returns when nothing is on its way. False when the last write failed.
  bool wait();

  // By step, oldest first.
  std::vector<CheckpointFile> list() const;
  // The newest good one: one that is not good is a warning, and the one before it is tried. Nothing
  // when there is no file. Throws Corrupt, listing all, when none is good.
  std::optional<Checkpoint> load_newest();

  const std::string& folder() const { return folder_; }

 private:
  class Writer;
  void tell_warnings();
  std::string folder_;
  CheckpointOptions options_;
  std::unique_ptr<Writer> writer_;
};

// Oldest first; empty when there is no such folder.
std::vector<CheckpointFile> list_checkpoints(const std::string& folder);
// Throws NotFound, IoError, or Corrupt naming the file.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace lockstep::train
