// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/ops/op.h"

// One function for each file of ops; together they are the catalogue.
namespace lockstep::families {

using Family = std::vector<const OpDef*>;

Family elementwise();  // arithmetic, comparison, logic, where, clip, cast
Family unary();        // exp, tanh, relu and their like, with their backward ops
Family math();         // tan, atan2, isnan and their like
Family reduce();
Family matmul();  // matmul, dense
Family linalg();  // cholesky, solve, svd and their like
Family conv();
Family pool();
Family resample();  // interpolate, grid_sample
Family norm();
Family dropout();
Family softmax();  // softmax, log_softmax
Family loss();     // cross-entropies
Family ctc();
Family index();         // embedding, take, gather, pick, scatter_add, one_hot
Family shape();         // reshape, transpose, slice, concat and their like
Family matrix_parts();  // tril, triu, diagonal
Family sort();
Family rnn();
Family attention();
Family random();
Family create();
Family update();  // optimisers' rules
Family fused();   // what the compiler's passes make; not meant for calling by hand

}  // namespace lockstep::families
