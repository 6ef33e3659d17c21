// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform.h"
#include "lockstep/graph/executable.h"
#include "lockstep/nn/block.h"
#include "lockstep/train/fields.h"

namespace lockstep::train {

struct PredictOptions {
  // As in training, labels included; samples may also have the inputs alone. None: an input, and a
  // label that nobody looks at or none.
  FieldRoles fields = {};
  std::int64_t batch = 64;
  data::Transform transform = {};  // of each sample's first field
  CompileOptions compile = {};
};

// What the net says of all samples, in their order, in predict mode: each of its outputs, joined
// along the first axis. Throws InvalidArgument for an empty set.
std::vector<Tensor> predict(nn::Block& net, const data::Dataset& dataset,
                            const PredictOptions& options = {});

}  // namespace lockstep::train
