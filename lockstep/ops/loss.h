// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// One loss for each row. logits [..., C]; labels are class numbers [...] (any integers), or
// probabilities of the logits' shape (floating). Smoothing s gives (1 - s) to the label and s / C
// to each class. A label outside 0..C-1 is an InvalidArgument that names label and row.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing = 0.0);
// Element-wise, from logits; labels in 0..1.
Tensor sigmoid_cross_entropy(const Tensor& logits, const Tensor& labels);

}  // namespace lockstep
