// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/models/models.h"

namespace lockstep::nn::models {

struct MatrixFactorizationOptions {
  std::int64_t users = 1000;
  std::int64_t items = 500;
  std::int64_t width = 16;  // of a user's and an item's vector
  double mean = 0.0;        // of the ratings: where the constant starts
  // As of nn::embedding(), of all tables: a step changes the rows that its batch names, and no
  // others.
  bool sparse_grad = false;
};
// Koren, Bell and Volinsky, 2009: a rating is a constant, a bias of the user, one of the item, and
// the product of their vectors. Inputs: users and items, both [N]; output [N].
BlockPtr matrix_factorization(const MatrixFactorizationOptions& options = {});

struct DlrmOptions {
  std::vector<std::int64_t> rows = {1000, 500};  // of each category's embedding
  std::int64_t width = 16;                       // of all vectors
  std::vector<std::int64_t> bottom = {64};   // dense layers of the features, before one of `width`
  std::vector<std::int64_t> top = {64, 32};  // and of the products, before one of a single unit
  bool sparse_grad = false;                  // of all embeddings, as of nn::embedding()
};
// Naumov et al., 2019: a dense net makes a vector of the features, an embedding one of each
// category; the products of all pairs of them, and the first, go through a dense net. Inputs:
// features [N, F], then the categories, each [N]; output: the score of a click before sigmoid, [N].
BlockPtr dlrm(const DlrmOptions& options = {});

}  // namespace lockstep::nn::models
