// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What one step of a recurrent layer does with one sample's row, float32. `size` is H; gates are
// blocks of H beside each other. Gradients of biases are added up over rows.
namespace lockstep::kernels {

struct LstmRow {
  float* gates;       // in: i, f, g, o before bias and activation; out: after
  const float* bias;  // of both sides, added
  const float* c_prev;
  float* c;
  float* h;
  std::int64_t size;
};
void lstm_forward_row(const LstmRow& row);

struct LstmBackwardRow {
  const float* gates;
  const float* c_prev;
  const float* c;
  const float* dy;
  const float* dh;  // from the step after
  float* dc;        // in: from the step after; out: to the step before
  float* dgates;
  float* dbias;
  std::int64_t size;
};
void lstm_backward_row(const LstmBackwardRow& row);

struct GruRow {
  float* kept;          // in: the input's part of r, z, n; out: r, z, n, the hidden part of n
  const float* hidden;  // the state's part of r, z, n
  const float* b_input;
  const float* b_hidden;
  const float* h_prev;
  float* h;
  std::int64_t size;
};
void gru_forward_row(const GruRow& row);

struct GruBackwardRow {
  const float* kept;
  const float* h_prev;
  const float* dy;
  float* dh;      // in: from the step after; out: what reaches the step before past the gates
  float* dinput;  // r, z, n
  float* dhidden;
  float* db_input;
  float* db_hidden;
  std::int64_t size;
};
void gru_backward_row(const GruBackwardRow& row);

struct PlainRow {
  float* h;           // in: before bias and activation
  const float* bias;  // of both sides, added
  std::int64_t size;
};
void tanh_forward_row(const PlainRow& row);
void relu_forward_row(const PlainRow& row);

struct PlainBackwardRow {
  const float* h;
  const float* dy;
  const float* dh;
  float* dgates;
  float* dbias;
  std::int64_t size;
};
void tanh_backward_row(const PlainBackwardRow& row);
void relu_backward_row(const PlainBackwardRow& row);

}  // namespace lockstep::kernels
