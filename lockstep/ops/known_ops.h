// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/catalogue.h"

namespace lockstep {

// The ops that the tape and the compiler's passes treat one by one, by name and not by what they
// say of themselves.
struct KnownOps {
  const OpDef& add = get_op("add");
  const OpDef& attention = get_op("attention");
  const OpDef& attention_backward = get_op("attention_backward");
  const OpDef& batch_norm = get_op("batch_norm");
  const OpDef& batch_norm_backward = get_op("batch_norm_backward");
  const OpDef& batch_norm_inference = get_op("batch_norm_inference");
  const OpDef& cast = get_op("cast");
  const OpDef& concat = get_op("concat");
  const OpDef& conv = get_op("conv");
  const OpDef& conv_backward_data = get_op("conv_backward_data");
  const OpDef& conv_backward_weights = get_op("conv_backward_weights");
  const OpDef& dense = get_op("dense");
  const OpDef& dense_backward_data = get_op("dense_backward_data");
  const OpDef& dense_backward_weights = get_op("dense_backward_weights");
  const OpDef& divide = get_op("divide");
  const OpDef& embedding = get_op("embedding");
  const OpDef& embedding_backward = get_op("embedding_backward");
  const OpDef& expand = get_op("expand");
  const OpDef& full = get_op("full");
  const OpDef& layer_norm = get_op("layer_norm");
  const OpDef& matmul = get_op("matmul");
  const OpDef& multiply = get_op("multiply");
  const OpDef& relu = get_op("relu");
  const OpDef& relu_backward = get_op("relu_backward");
  const OpDef& reshape = get_op("reshape");
  const OpDef& rnn_layer = get_op("rnn_layer");
  const OpDef& rnn_layer_backward = get_op("rnn_layer_backward");
  const OpDef& slice_backward = get_op("slice_backward");
  const OpDef& squeeze = get_op("squeeze");
  const OpDef& stop_gradient = get_op("stop_gradient");
  const OpDef& subtract = get_op("subtract");
  const OpDef& transpose = get_op("transpose");
};

const KnownOps& known_ops();

}  // namespace lockstep
