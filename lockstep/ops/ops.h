// SPDX-License-Identifier: Apache-2.0
#pragma once

// All operators.
#include "lockstep/ops/attention.h"
#include "lockstep/ops/conv.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/ctc.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/loss.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/norm.h"
#include "lockstep/ops/pool.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/resample.h"
#include "lockstep/ops/rnn.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"
#include "lockstep/ops/sort.h"
#include "lockstep/ops/unary.h"
#include "lockstep/ops/update.h"
