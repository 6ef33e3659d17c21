// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/rnn_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/cpu/rnn.h"

namespace lockstep::kernels {
namespace {

using Vector = std::vector<double>;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// bias + weight x, weight [rows, columns].
Vector affine(const double* weight, const double* bias, const double* x, std::int64_t rows,
              std::int64_t columns) {
  Vector result(bias, bias + rows);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      result[static_cast<std::size_t>(i)] += weight[i * columns + j] * x[j];
  return result;
}

// dx += weight^T dy, dweight += dy x^T, dbias += dy.
void affine_backward(const double* weight, const double* x, const Vector& dy, double* dx,
                     double* dweight, double* dbias, std::int64_t columns) {
  for (std::size_t r = 0; r < dy.size(); ++r) {
    const std::int64_t row = static_cast<std::int64_t>(r) * columns;
    dbias[r] += dy[r];
    for (std::int64_t j = 0; j < columns; ++j) {
      dx[j] += weight[row + j] * dy[r];
      dweight[row + j] += dy[r] * x[j];
    }
  }
}

// One sample's step forward: `a` is the input's part of the gates, `b` the state's.
struct Step {
  const double* h_prev;
  const double* c_prev;  // lstm
  double* h;
  double* kept;
};

void lstm_step(const Step& s, const Vector& a, const Vector& b, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const auto gate = [&](std::size_t g) { return a[g * n + j] + b[g * n + j]; };
    const double i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = std::tanh(gate(2));
    const double o = sigmoid(gate(3)), c = f * s.c_prev[j] + i * g;
    s.kept[j] = i;
    s.kept[n + j] = f;
    s.kept[2 * n + j] = g;
    s.kept[3 * n + j] = o;
    s.kept[4 * n + j] = c;
    s.h[j] = o * std::tanh(c);
  }
}

void gru_step(const Step& s, const Vector& a, const Vector& b, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double r = sigmoid(a[j] + b[j]), z = sigmoid(a[n + j] + b[n + j]);
    const double fresh = std::tanh(a[2 * n + j] + r * b[2 * n + j]);
    s.kept[j] = r;
    s.kept[n + j] = z;
    s.kept[2 * n + j] = fresh;
    s.kept[3 * n + j] = b[2 * n + j];
    s.h[j] = (1.0 - z) * fresh + z * s.h_prev[j];
  }
}

void plain_step(RnnMode mode, const Step& s, const Vector& a, const Vector& b, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j)
    s.h[j] = mode == RnnMode::tanh ? std::tanh(a[j] + b[j]) : std::max(a[j] + b[j], 0.0);
}

// One sample's step backward. `dh` is the whole gradient of h; what passes the gates by is left in
// `dh_prev`, the rest comes from `da` and `db`, the gradients of the gates' two parts.
struct BackwardStep {
  const double* h_prev;
  const double* c_prev;
  const double* h;
  const double* kept;
  double* dc;  // in: from the step after; out: to the step before
  double* dh_prev;
};

void lstm_step_backward(const BackwardStep& s, const Vector& dh, Vector& da, Vector& db,
                        std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double i = s.kept[j], f = s.kept[n + j], g = s.kept[2 * n + j];
    const double o = s.kept[3 * n + j], t = std::tanh(s.kept[4 * n + j]);
    const double dc = s.dc[j] + dh[j] * o * (1.0 - t * t);
    da[j] = dc * g * i * (1.0 - i);
    da[n + j] = dc * s.c_prev[j] * f * (1.0 - f);
    da[2 * n + j] = dc * i * (1.0 - g * g);
    da[3 * n + j] = dh[j] * t * o * (1.0 - o);
    s.dc[j] = dc * f;
    s.dh_prev[j] = 0.0;
  }
  db = da;
}

void gru_step_backward(const BackwardStep& s, const Vector& dh, Vector& da, Vector& db,
                       std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double r = s.kept[j], z = s.kept[n + j], fresh = s.kept[2 * n + j];
    const double dn = dh[j] * (1.0 - z) * (1.0 - fresh * fresh);
    da[j] = db[j] = dn * s.kept[3 * n + j] * r * (1.0 - r);
    da[n + j] = db[n + j] = dh[j] * (s.h_prev[j] - fresh) * z * (1.0 - z);
    da[2 * n + j] = dn;
    db[2 * n + j] = dn * r;
    s.dh_prev[j] = dh[j] * z;
  }
}

void plain_step_backward(RnnMode mode, const BackwardStep& s, const Vector& dh, Vector& da,
                         Vector& db, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    // What relu stops, NaN among it, is 0.
    const double relu = s.h[j] <= 0.0 ? 0.0 : dh[j];
    da[j] = db[j] = mode == RnnMode::tanh ? dh[j] * (1.0 - s.h[j] * s.h[j]) : relu;
    s.dh_prev[j] = 0.0;
  }
}

RnnSizes sizes_of(const KernelCall& call, const RnnAttrs& attrs, std::size_t first) {
  const std::size_t cell = attrs.mode == "lstm" ? 1 : 0;
  return rnn_sizes(attrs, call.inputs[first].shape, call.inputs[first + 3 + cell].shape);
}

// Every sequence's; all T where none are given.
std::vector<std::int64_t> lengths_of(const KernelCall& call, const RnnInputs& at, const RnnSizes& n,
                                     std::size_t first) {
  if (!n.has_lengths) return sequence_lengths(nullptr, DType::int64, n);
  const TensorView& lengths = call.inputs[first + at.lengths()];
  return sequence_lengths(lengths.data, lengths.dtype, n);
}

}  // namespace

std::vector<std::int64_t> sequence_lengths(const std::byte* lengths, DType dtype,
                                           const RnnSizes& n) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(n.batch), n.steps);
  for (std::size_t i = 0; lengths != nullptr && i < result.size(); ++i) {
    result[i] = dtype == DType::int32 ? reinterpret_cast<const std::int32_t*>(lengths)[i]
                                      : reinterpret_cast<const std::int64_t*>(lengths)[i];
    if (result[i] < 0 || result[i] > n.steps)
      throw InvalidArgument("rnn_layer: a length is {}, expected 0 to {}", result[i], n.steps);
  }
  return result;
}

void rnn_layer_reference(const KernelCall& call) {
  const RnnSizes n = sizes_of(call, call.attrs.as<RnnAttrs>(), 0);
  const RnnInputs at(n);
  const auto in = [&](std::size_t i) { return call.inputs[i].as<double>(); };
  const auto size = static_cast<std::size_t>(n.hidden);
  const std::int64_t state = n.batch * n.hidden;
  double* y = call.outputs[0].as<double>();
  double* h = call.outputs[1].as<double>();
  double* c = n.has_cell() ? call.outputs[2].as<double>() : nullptr;
  double* kept = call.outputs[at.workspace()].as<double>();
  std::copy_n(in(at.h0()), state, h);
  if (n.has_cell()) std::copy_n(in(at.c0()), state, c);
  const std::vector<std::int64_t> lengths = lengths_of(call, at, n, 0);
  for (std::int64_t s = 0; s < n.steps; ++s)
    for (std::int64_t i = 0; i < n.batch; ++i) {
      const std::int64_t row = n.time(s) * n.batch + i;
      const double* h_prev = h + i * n.hidden;
      const double* c_prev = n.has_cell() ? c + i * n.hidden : nullptr;
      if (n.time(s) >= lengths[static_cast<std::size_t>(i)]) {
        std::copy_n(h_prev, size, y + row * n.hidden);
        std::fill_n(kept + row * n.kept_width(), n.kept_width(), 0.0);
        if (n.has_cell()) std::copy_n(c_prev, size, kept + row * n.kept_width() + 4 * n.hidden);
        continue;
      }
      const Vector a = affine(in(at.w_input()), in(at.b_input()), in(at.x()) + row * n.inputs,
                              n.gate_width(), n.inputs);
      const Vector b =
          affine(in(at.w_hidden()), in(at.b_hidden()), h_prev, n.gate_width(), n.hidden);
      const Step step{h_prev, c_prev, y + row * n.hidden, kept + row * n.kept_width()};
      if (n.mode == RnnMode::lstm)
        lstm_step(step, a, b, size);
      else if (n.mode == RnnMode::gru)
        gru_step(step, a, b, size);
      else
        plain_step(n.mode, step, a, b, size);
      std::copy_n(step.h, size, h + i * n.hidden);
      if (n.has_cell()) std::copy_n(step.kept + 4 * n.hidden, size, c + i * n.hidden);
    }
}

void rnn_layer_backward_reference(const KernelCall& call) {
  const auto& attrs = call.attrs.as<RnnBackwardAttrs>();
  const RnnGradInputs grads(attrs);
  const std::size_t first = grads.count();
  const RnnSizes n = sizes_of(call, attrs.forward(), first);
  const RnnInputs at(n);
  const auto in = [&](std::size_t i) { return call.inputs[first + i].as<double>(); };
  const auto out = [&](std::size_t i) { return call.outputs[i].as<double>(); };
  const auto size = static_cast<std::size_t>(n.hidden);
  const std::int64_t state = n.batch * n.hidden;
  for (const TensorView& output : call.outputs)
    std::fill_n(output.as<double>(), output.numel(), 0.0);
  const double* y = in(at.count());
  const double* kept = in(at.count() + 1);
  double* dh_next = out(at.h0());
  if (grads.has_dh) std::copy_n(call.inputs[grads.dh()].as<double>(), state, dh_next);
  if (grads.has_dc) std::copy_n(call.inputs[grads.dc()].as<double>(), state, out(at.c0()));
  const std::vector<std::int64_t> lengths = lengths_of(call, at, n, first);
  Vector dh(size), da(static_cast<std::size_t>(n.gate_width())), db = da;
  for (std::int64_t s = n.steps - 1; s >= 0; --s)
    for (std::int64_t i = 0; i < n.batch; ++i) {
      const std::int64_t row = n.time(s) * n.batch + i;
      const std::int64_t before = s == 0 ? 0 : n.time(s - 1) * n.batch + i;
      const double* h_prev = s == 0 ? in(at.h0()) + i * n.hidden : y + before * n.hidden;
      const double* c_prev = nullptr;
      if (n.has_cell())
        c_prev =
            s == 0 ? in(at.c0()) + i * n.hidden : kept + before * n.kept_width() + n.gate_width();
      double* dh_prev = dh_next + i * n.hidden;
      std::copy_n(dh_prev, size, dh.begin());
      if (grads.has_dy)
        for (std::size_t j = 0; j < size; ++j)
          dh[j] += call.inputs[0].as<double>()[row * n.hidden + static_cast<std::int64_t>(j)];
      if (n.time(s) >= lengths[static_cast<std::size_t>(i)]) {
        std::copy_n(dh.begin(), size, dh_prev);
        continue;
      }
      const BackwardStep step{h_prev,
                              c_prev,
                              y + row * n.hidden,
                              kept + row * n.kept_width(),
                              n.has_cell() ? out(at.c0()) + i * n.hidden : nullptr,
                              dh_prev};
      if (n.mode == RnnMode::lstm)
        lstm_step_backward(step, dh, da, db, size);
      else if (n.mode == RnnMode::gru)
        gru_step_backward(step, dh, da, db, size);
      else
        plain_step_backward(n.mode, step, dh, da, db, size);
      affine_backward(in(at.w_input()), in(at.x()) + row * n.inputs, da,
                      out(at.x()) + row * n.inputs, out(at.w_input()), out(at.b_input()), n.inputs);
      affine_backward(in(at.w_hidden()), h_prev, db, dh_prev, out(at.w_hidden()),
                      out(at.b_hidden()), n.hidden);
    }
}

}  // namespace lockstep::kernels
