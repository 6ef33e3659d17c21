// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

struct RnnAttrs {
  std::string mode = "lstm";
  bool reverse = false;
  bool with_lengths = false;

  template <class F>
  void visit(F&& f) {
    f("mode", mode, "'lstm', 'gru', 'rnn_tanh' or 'rnn_relu'");
    f("reverse", reverse, "begin with the last step");
    f("with_lengths", with_lengths, "lengths is among the inputs");
  }
};

// rnn_layer_backward's: which of the outputs' gradients are among its inputs; the others are zero.
struct RnnBackwardAttrs {
  std::string mode = "lstm";
  bool reverse = false;
  bool dy = true;
  bool dh_n = true;
  bool dc_n = true;
  bool with_lengths = false;

  template <class F>
  void visit(F&& f) {
    f("mode", mode, "as in rnn_layer");
    f("reverse", reverse, "as in rnn_layer");
    f("dy", dy, "grad is among the inputs; false: it is zero");
    f("dh_n", dh_n, "grad_h_n is among the inputs; false: it is zero");
    f("dc_n", dc_n, "grad_c_n is among the inputs (lstm); false: it is zero");
    f("with_lengths", with_lengths, "as in rnn_layer");
  }

  RnnAttrs forward() const { return {mode, reverse, with_lengths}; }
};

enum class RnnMode : std::uint8_t { lstm, gru, tanh, relu };

// Throws InvalidArgument that begins with `op` when there is no such mode.
RnnMode rnn_mode(const char* op, const std::string& name);

// One layer in one direction: x [T, N, I] and a state of [N, H].
struct RnnSizes {
  RnnMode mode;
  bool reverse, has_lengths;
  std::int64_t steps, batch, inputs, hidden;

  bool has_cell() const { return mode == RnnMode::lstm; }
  // Blocks of H in a row of the weights.
  std::int64_t gates() const;
  // Blocks of H in a row of the workspace, [T, N, H * blocks]: lstm i, f, g, o, c; gru r, z, n and
  // the hidden part of n; nothing for the others, which y tells all of.
  std::int64_t kept() const;
  std::int64_t gate_width() const { return gates() * hidden; }
  std::int64_t kept_width() const { return kept() * hidden; }

  // The position in time of the s-th step taken.
  std::int64_t time(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  // The first position of steps [begin, end), which lie beside each other.
  std::int64_t first_time(std::int64_t begin, std::int64_t end) const {
    return reverse ? steps - end : begin;
  }
};

// x, h0[, c0], w_input, w_hidden, b_input, b_hidden[, lengths]: at which input each one is, counted
// from x.
struct RnnInputs {
  explicit RnnInputs(const RnnSizes& sizes)
      : cell(sizes.has_cell() ? 1 : 0), with_lengths(sizes.has_lengths ? 1 : 0) {}
  std::size_t cell, with_lengths;
  std::size_t x() const { return 0; }
  std::size_t h0() const { return 1; }
  std::size_t c0() const { return 2; }  // lstm
  std::size_t w_input() const { return 2 + cell; }
  std::size_t w_hidden() const { return 3 + cell; }
  std::size_t b_input() const { return 4 + cell; }
  std::size_t b_hidden() const { return 5 + cell; }
  std::size_t lengths() const { return 6 + cell; }  // with_lengths
  // Without the lengths: as many as have gradients.
  std::size_t differentiable() const { return 6 + cell; }
  std::size_t count() const { return 6 + cell + with_lengths; }
  // rnn_layer's outputs: y, h_n[, c_n], workspace.
  std::size_t workspace() const { return 2 + cell; }
};

// The inputs of rnn_layer_backward: the gradients that are given, of dy, dh_n, dc_n; then those of
// rnn_layer; then y and the workspace.
struct RnnGradInputs {
  explicit RnnGradInputs(const RnnBackwardAttrs& attrs)
      : has_dy(attrs.dy), has_dh(attrs.dh_n), has_dc(attrs.dc_n && attrs.mode == "lstm") {}
  bool has_dy, has_dh, has_dc;
  std::size_t dy() const { return 0; }
  std::size_t dh() const { return has_dy ? 1 : 0; }
  std::size_t dc() const { return dh() + (has_dh ? 1 : 0); }
  std::size_t count() const { return dc() + (has_dc ? 1 : 0); }
};

// From the shapes of x and w_hidden.
RnnSizes rnn_sizes(const RnnAttrs& attrs, const Shape& x, const Shape& w_hidden);

}  // namespace lockstep
