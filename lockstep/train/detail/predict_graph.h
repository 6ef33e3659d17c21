// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/graph/segments.h"
#include "lockstep/train/fields.h"
#include "lockstep/train/loss_function.h"

namespace lockstep::train::detail {

// Forward in predict mode as a graph: the fields and the parameters go in; the mean loss, where the
// loss knows them the predicted and the expected classes, and which of them count if not all do,
// and the net's outputs come out.
struct PredictGraph {
  Graph graph;
  std::size_t fields = 0;
  FieldRoles roles;
  std::vector<nn::NamedParameter> parameters;
  bool has_classes = false, has_ignored = false;
  // Of a net that is cut: the cuts, where each node is computed, and, where that is settled, the
  // segments that have the parameters.
  std::vector<std::string> cuts;
  std::vector<Cell> cells;
  std::vector<std::int32_t> homes;

  static constexpr std::size_t kLoss = 0, kPredicted = 1;
  std::size_t first_output() const {
    return kPredicted + (has_classes ? 2 : 0) + (has_ignored ? 1 : 0);
  }
};

PredictGraph trace_predict(nn::Block& net, const LossFunction& loss, const FieldRoles& roles,
                           const std::vector<TensorInfo>& fields,
                           const std::vector<std::string>& cuts = {});

}  // namespace lockstep::train::detail
