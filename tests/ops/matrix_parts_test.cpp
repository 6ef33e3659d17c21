// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/matrix_parts.h"

#include <gtest/gtest.h>

#include "lockstep/ops/create.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

TEST(MatrixParts, ADiagonalIsAWindow) {
  const Tensor x = Tensor::zeros({3, 4});
  diagonal(x, 1).assign(Tensor::full({3}, 7));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 7, 0, 0, 0, 0, 7, 0, 0, 0, 0, 7}));
}

TEST(MatrixParts, DiagTakesADiagonalOrMakesAMatrixOfIt) {
  EXPECT_EQ(diag(arange(1, 3)).to_vector<float>(), (Floats{1, 0, 0, 2}));
  EXPECT_EQ(diag(arange(1, 3), -1).to_vector<float>(), (Floats{0, 0, 0, 1, 0, 0, 0, 2, 0}));
  EXPECT_EQ(diag(diag(arange(1, 4), 2), 2).to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(diag_embed(Tensor::full({2, 3}, 1)).shape(), (Shape{2, 3, 3}));
}

TEST(MatrixParts, WhatHasNoMatricesIsRefusedByName) {
  EXPECT_EQ(message_of([] { tril(Tensor::zeros({3})); }),
            "tril: input has shape [3], expected at least 2 axes");
  EXPECT_EQ(message_of([] {
              diag(Tensor::zeros({3, 3, 3}));
            }),
            "diag: input has shape [3, 3, 3], expected a vector or a matrix");
  EXPECT_EQ(message_of([] {
              diagonal(Tensor::zeros({3, 3}), 0, 1, -1);
            }),
            "diagonal: axes 1 and -1 are the same one");
}

TEST(Roll, TakesOneShiftForEachAxis) {
  EXPECT_EQ(message_of([] {
              roll(Tensor::zeros({3, 3}), {1}, {0, 1});
            }),
            "roll: 1 shifts for 2 axes");
  EXPECT_EQ(message_of([] {
              roll(Tensor::zeros({3, 3}), {1, 2});
            }),
            "roll: 2 shifts for all axes as one");
}

TEST(Meshgrid, GivesTheCoordinatesOfAGrid) {
  const auto grid = meshgrid({arange(0, 2), arange(5, 8)});
  EXPECT_EQ(grid[0].to_vector<float>(), (Floats{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(grid[1].to_vector<float>(), (Floats{5, 6, 7, 5, 6, 7}));
  EXPECT_EQ(message_of([] {
              meshgrid({Tensor::zeros({2, 2})});
            }),
            "meshgrid: input 0 has shape [2, 2], expected one axis");
}

}  // namespace
}  // namespace lockstep
