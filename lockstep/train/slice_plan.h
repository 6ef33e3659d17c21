// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/ops/slice_ops.h"
#include "lockstep/train/fields.h"
#include "lockstep/train/loss_function.h"
#include "lockstep/train/mesh.h"

namespace lockstep::train {

// Which parameters of a net are cut into slices, and how: what a step's bits depend on.
struct SlicePlan {
  std::int64_t slices = 1;
  std::map<std::string, SliceCut> cuts = {};  // by the parameter's name
};

// Layers are looked at in the order of their calls. One that reads parts of its features is split
// by them (rows), any other one by what it makes (columns): so two of them are a pair, with one sum
// after the second. Attention is split by its heads, a table by its width, or by its rows where a
// later layer has the same weights. Throws InvalidArgument for a split that names no layer or
// one that cannot be split, and where a layer has less to divide than there are slices.
SlicePlan plan_slices(nn::Block& net, const LossFunction& loss,
                      const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                      std::int64_t slices, const std::vector<Split>& splits = {});

// "columns", "rows", "none". Throws InvalidArgument.
SplitWay parse_split_way(const std::string& name);
// "blocks.*.mlp.fc1=rows".
Split parse_split(const std::string& text);

}  // namespace lockstep::train
