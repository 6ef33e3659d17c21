// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/graph/executable.h"
#include "lockstep/kvstore/mesh_links.h"
#include "lockstep/train/detail/predict_graph.h"
#include "lockstep/train/detail/step_executable.h"

namespace lockstep::train::detail {

// A forward pass in predict mode, compiled: one executable, or one for each segment of a net that
// is cut. Parameters are states, which clones share; their numbers are those of the graph's list.
class PredictRun {
 public:
  // `own`: the segments that this worker computes; the others' parameters are not here.
  PredictRun(const PredictGraph& predict, const CompileOptions& options, SegmentRange own);
  // The same for another shape, over the parameters and in the memory of `like`.
  PredictRun(const PredictGraph& predict, const CompileOptions& options, const PredictRun& like);
  PredictRun clone() const;
  // In the memory of `like`; one of the two runs at a time.
  PredictRun clone(const PredictRun& like) const;

  bool has_parameter(std::size_t number) const;
  void set_parameter(std::size_t number, const Tensor& value);

  // All outputs of the graph, of a worker that has all segments.
  Tensors run(const data::Fields& fields);

  // Of a worker that has some segments: what they read of those below comes from there, what those
  // above read goes there, and stays until it is sent. The outputs are those that are made here.
  struct Passed {
    Tensors outputs, sent = {};
    comm::WorkPtr sending = nullptr;
    void finish_sending();
  };
  Passed run_stage(const data::Fields& fields, kvstore::MeshLinks& links);
  // The outputs of all stages, at every stage of the pipeline. All of them call it.
  Tensors share(Passed& passed, kvstore::MeshLinks& links) const;

 private:
  struct Plan;
  PredictRun(std::shared_ptr<const Plan> plan, std::vector<Executable> parts);
  static PredictRun make(const PredictGraph& predict, const CompileOptions& options,
                         SegmentRange own, const PredictRun* like);
  Tensors run_parts(const data::Fields& fields, std::vector<Tensor>& values);

  std::shared_ptr<const Plan> plan_;
  mutable std::vector<Executable> parts_;
};

}  // namespace lockstep::train::detail
