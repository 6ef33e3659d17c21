// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/run_files.h"

namespace lockstep::cli {

// One sample as the net reads it, a batch of one.
struct PredictInput {
  std::string name;  // "digit.png", "images.idx[3]"
  Tensor batch;
};

// Of a PNG or JPEG file, of each image of an idx file, or of a text file, as the run's recipe reads
// them. Throws NotFound, IoError or Corrupt.
std::vector<PredictInput> read_inputs(const TrainedModel& model, const std::string& file);

// Throws InvalidArgument when the run was trained on generated data and has none.
train::TextCodecPtr require_codec(const TrainedModel& model);

}  // namespace lockstep::cli
