// SPDX-License-Identifier: Apache-2.0
#pragma once

// All layers. A factory such as nn::dense(10) or nn::dropout(0.5) makes a block; the functions of
// the same name that take tensors are ops (lockstep/ops, nn/functional.h).
#include "lockstep/nn/functional.h"
#include "lockstep/nn/layers/activation.h"
#include "lockstep/nn/layers/attention.h"
#include "lockstep/nn/layers/conv.h"
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/layers/flatten.h"
#include "lockstep/nn/layers/lambda.h"
#include "lockstep/nn/layers/norm.h"
#include "lockstep/nn/layers/pad.h"
#include "lockstep/nn/layers/pool.h"
#include "lockstep/nn/layers/resample.h"
#include "lockstep/nn/layers/rnn.h"
#include "lockstep/nn/layers/rnn_cell.h"
#include "lockstep/nn/layers/spectral_norm.h"
#include "lockstep/nn/layers/sync_batch_norm.h"
