// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/train/callback.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train::detail {

// A checkpoint has this many of the last evaluations; the older ones are in a file beside it, so
// that what is written at each step does not grow with the run.
inline constexpr std::size_t kRecentEvaluations = 256;

// What a run has added up so far besides the tensors: kept in checkpoints, so that a resumed run
// reports what the uninterrupted one does.
struct FitState {
  double loss_sum = 0.0;  // of the epoch's steps so far
  double accuracy_sum = 0.0;
  double last_loss = 0.0;  // mean over the last whole epoch
  double last_accuracy = 0.0;
  std::vector<EvaluationRecord> history;
  std::vector<TensorInfo> fields = {};  // of a shard in the run's first step
  bool same_bits = true;                // of all workers that the run has had
  std::string isa = {};                 // the instruction set of the steps so far; empty: not told
  bool same_isa = true;                 // all steps had the same
  // Workers were not in step, and have met here: all gradients before it are applied, none after it
  // is begun. False: they are in step at every point.
  bool consistent_cut = false;

  std::size_t missing_before = 0;  // evaluations before `history`, of a checkpoint just read

  // How many of the history are not in the JSON.
  std::size_t history_before() const;
  std::string to_json() const;
  // Throws Corrupt that begins with `place`.
  static FitState from_json(const std::string& text, const std::string& place);
};

// A line of JSON for each evaluation.
std::string lines_of(std::span<const EvaluationRecord> records);
// Throws Corrupt that begins with `place`.
std::vector<EvaluationRecord> records_from(const std::string& lines, const std::string& place);

// JSON of all that must be the same for a resumed run to have the same bits.
std::string configuration_json(const TrainerOptions& trainer, const optim::Optimizer& optimizer,
                               const FitOptions& fit, std::int64_t samples);
// Throws InvalidArgument, naming what differs, when the checkpoint is of another configuration.
// `older` are the keys that it may lack, with what their lack means; `may_differ` are not compared.
void check_configuration(const std::string& folder, const std::string& before,
                         const std::string& now, const std::string& older = "{}",
                         const std::vector<std::string>& may_differ = {});
// Throws InvalidArgument, naming what differs between two workers, when not all have the same.
void check_same_configuration(kvstore::Group& group, const std::string& own);

}  // namespace lockstep::train::detail
