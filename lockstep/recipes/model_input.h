// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/recipes/run_files.h"

namespace lockstep::recipes {

// One sample as the net reads it, a batch of one.
struct ModelInput {
  std::string name;  // "digit.png", "images.idx[3]"
  Tensor batch;
};

// Of a PNG or JPEG file, of each image of an idx file, or of a text file, as the run's recipe reads
// them. Throws NotFound, IoError or Corrupt.
std::vector<ModelInput> read_inputs(const TrainedModel& model, const std::string& file);

// Throws InvalidArgument when the run was trained on generated data and has none.
TextCodecPtr require_codec(const TrainedModel& model);

}  // namespace lockstep::recipes
