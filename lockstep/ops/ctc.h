// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Connectionist temporal classification (Graves et al., 2006): -log of the probability, summed over
// all alignments, that the sequences of `logits` [T, N, C] (before softmax) say `labels` [N, L]
// with blanks between: one loss for each sample. A negative label ends its row; so does
// `label_lengths` [N] where it is given. `input_lengths` [N] are the steps that count, all T where
// it is undefined. A label that no alignment gives has loss infinity and gradient 0.
Tensor ctc_loss(const Tensor& logits, const Tensor& labels, std::int64_t blank = 0,
                const Tensor& input_lengths = {}, const Tensor& label_lengths = {});

}  // namespace lockstep
