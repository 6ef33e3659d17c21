// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/train/callback.h"

namespace lockstep::train::detail {

// Evaluations that are too old to be written again with each checkpoint: `history.jsonl` beside the
// checkpoints, one line each, which only grows.
class HistoryFile {
 public:
  explicit HistoryFile(const std::string& folder);

  // The lines of the first `count` evaluations; what follows them, of a run that went further, is
  // not kept. Fewer where there are fewer. Throws IoError.
  std::string resume(std::size_t count);
  // On return the file has the first `count` of these. Throws IoError: the next call writes what
  // this one did not.
  void write(const std::vector<EvaluationRecord>& history, std::size_t count);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::size_t written_ = 0;  // evaluations that are there whole
  std::size_t bytes_ = 0;    // of them
};

}  // namespace lockstep::train::detail
