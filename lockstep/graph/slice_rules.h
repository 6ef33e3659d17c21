// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/graph/slice_tracer.h"

namespace lockstep {

// An op that reads something cut, or a parameter that may be.
struct SliceCall {
  SliceTracer& tracer;
  const OpDef& op;
  std::span<const Tensor> inputs;
  const Attrs& attrs;
  Infos outputs;  // as of the whole

  bool is_cut(std::size_t input) const {
    return input < inputs.size() && tracer.is_cut(inputs[input]);
  }
  const SliceCut& cut_of(std::size_t input) const { return tracer.cut_of(inputs[input]); }
};

using SliceOutputs = std::optional<std::vector<Tensor>>;

// By the op's rule; nothing where it has none, or declines: the whole is computed then.
SliceOutputs run_by_slices(const SliceCall& call);

// The op on each slice's inputs; its outputs are cut by `cuts`. Without attributes of their own the
// slices have the call's.
using SliceInputs = std::vector<std::vector<Tensor>>;  // by input, by slice
std::vector<Tensor> apply_to_parts(const SliceCall& call, const SliceInputs& inputs,
                                   const std::vector<SliceCut>& cuts,
                                   const std::vector<Attrs>& attrs = {});

// x, which broadcasts to `rank` axes, for an op whose result is cut so.
std::vector<Tensor> broadcast_parts(SliceTracer& tracer, const Tensor& x, SliceCut cut, int rank);

// The same elements in another shape. Nothing where slices' parts would not be of one axis.
std::optional<Tensor> reshape_parts(SliceTracer& tracer, const Tensor& x, const Shape& shape);

namespace slice_rules {

// Ops that only move, or go element by element (slice_shape_rules.cpp).
SliceOutputs elementwise(const SliceCall& call);
SliceOutputs reshape(const SliceCall& call);
SliceOutputs transpose(const SliceCall& call);
SliceOutputs squeeze(const SliceCall& call);
SliceOutputs expand_dims(const SliceCall& call);
SliceOutputs slice(const SliceCall& call);
SliceOutputs softmax(const SliceCall& call);
SliceOutputs reduce(const SliceCall& call);
SliceOutputs dropout(const SliceCall& call);
SliceOutputs pool(const SliceCall& call);

// Layers (slice_layer_rules.cpp).
SliceOutputs dense(const SliceCall& call);
SliceOutputs conv(const SliceCall& call);
SliceOutputs batch_norm(const SliceCall& call);
SliceOutputs attention(const SliceCall& call);
SliceOutputs matmul(const SliceCall& call);

// Vocabularies (slice_class_rules.cpp).
SliceOutputs embedding(const SliceCall& call);
SliceOutputs cross_entropy(const SliceCall& call);
SliceOutputs argmax(const SliceCall& call);

}  // namespace slice_rules
}  // namespace lockstep
