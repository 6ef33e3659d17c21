// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/rnn.h"

#include <algorithm>
#include <cstring>

#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/rnn_gates.h"
#include "lockstep/ops/cpu/rnn_reference.h"
#include "lockstep/ops/cpu/sgemm.h"
#include "lockstep/ops/rnn_attrs.h"

// A float32 recurrent layer: the input's part of the gates is a matrix product over many steps at
// once, the state's part one product a step, and the gates are one pass over the row. Steps are
// taken in chunks, so that a chunk's gates are still in the second-level cache when they are used
// again: by the steps themselves, and, backward, by the products that make the gradients of the
// weights, which need no order between steps.
namespace lockstep::kernels {
namespace {

constexpr std::int64_t kChunkFloats = 256 * 1024;

std::int64_t chunk_steps(const RnnSizes& n) {
  const std::int64_t step = std::max<std::int64_t>(n.batch * n.gate_width(), 1);
  return std::clamp<std::int64_t>(kChunkFloats / step, 1, std::max<std::int64_t>(n.steps, 1));
}

float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

void transpose(Rows source, std::int64_t rows, std::int64_t columns, float* target) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t i = 0; i < rows; i += kTile)
    for (std::int64_t j = 0; j < columns; j += kTile)
      for (std::int64_t c = j; c < std::min(j + kTile, columns); ++c)
        for (std::int64_t r = i; r < std::min(i + kTile, rows); ++r)
          target[c * rows + r] = source.row(r)[c];
}

// How far each sequence goes. Products are over all samples, whether or not they have ended: how a
// product is cut depends on its size, and so the bits of a sample would on the others' lengths.
class Sequences {
 public:
  Sequences(const std::byte* lengths, DType dtype, const RnnSizes& n) {
    if (n.has_lengths) lengths_ = sequence_lengths(lengths, dtype, n);
  }
  // Every sequence has all steps.
  bool all() const { return lengths_.empty(); }
  bool goes_on(std::int64_t sample, std::int64_t time) const {
    return all() || time < lengths_[static_cast<std::size_t>(sample)];
  }

 private:
  std::vector<std::int64_t> lengths_;
};

// What both passes share. `first` is the number of the input x.
class RnnKernel : public PreparedKernel {
 public:
  RnnKernel(const KernelRequest& request, const RnnAttrs& attrs, std::size_t first)
      : n(rnn_sizes(attrs, request.inputs[first].shape,
                    request.inputs[first + (attrs.mode == "lstm" ? 4 : 3)].shape)),
        at(n),
        lengths_dtype(n.has_lengths ? request.inputs[first + at.lengths()].dtype : DType::int64) {
    name = "sgemm";
    input_layouts.resize(request.inputs.size());
    output_layouts.resize(request.outputs.size());
  }

 protected:
  Sequences sequences(const KernelBuffers& buffers, std::size_t first) const {
    return {n.has_lengths ? buffers.inputs[first + at.lengths()] : nullptr, lengths_dtype, n};
  }

  // Where the state before step s is: h0, or y at the step before.
  const float* state_before(std::int64_t s, const float* h0, const float* y) const {
    return s == 0 ? h0 : y + n.time(s - 1) * n.batch * n.hidden;
  }

  RnnSizes n;
  RnnInputs at;
  DType lengths_dtype;
};

class RnnForward final : public RnnKernel {
 public:
  explicit RnnForward(const KernelRequest& request)
      : RnnKernel(request, request.attrs.as<RnnAttrs>(), 0) {
    const std::int64_t hidden_part = n.mode == RnnMode::gru ? n.batch * n.gate_width() : 0;
    scratch_bytes = sizeof(float) * static_cast<std::size_t>(n.hidden * n.gate_width() +
                                                             n.gate_width() + hidden_part);
  }

  void run(const KernelBuffers& buffers) const override {
    const OneThread one;
    const Call call = make_call(buffers);
    transpose({floats(buffers.inputs[at.w_hidden()]), n.hidden}, n.gate_width(), n.hidden,
              call.w_hidden);
    for (std::int64_t j = 0; j < n.gate_width(); ++j)
      call.bias[j] = call.b_input[j] + call.b_hidden[j];
    for (std::int64_t begin = 0; begin < n.steps; begin += chunk_steps(n)) {
      const std::int64_t end = std::min(begin + chunk_steps(n), n.steps);
      input_part(call, begin, end);
      for (std::int64_t s = begin; s < end; ++s) step(call, s);
    }
    finish(call, buffers);
  }

 private:
  struct Call {
    float *x, *h0, *c0, *w_input, *b_input, *b_hidden, *y, *kept;
    float *w_hidden, *bias, *hidden_part;  // scratch; w_hidden is transposed there
    Sequences sequences;
  };

  Call make_call(const KernelBuffers& buffers) const {
    const auto in = [&](std::size_t i) { return floats(buffers.inputs[i]); };
    float* scratch = floats(buffers.scratch);
    float* bias = scratch + n.hidden * n.gate_width();
    return {in(at.x()),
            in(at.h0()),
            n.has_cell() ? in(at.c0()) : nullptr,
            in(at.w_input()),
            in(at.b_input()),
            in(at.b_hidden()),
            floats(buffers.outputs[0]),
            floats(buffers.outputs[at.workspace()]),
            scratch,
            bias,
            bias + n.gate_width(),
            sequences(buffers, 0)};
  }

  // Gates before activation are put where they are kept; a plain layer's are y itself.
  Rows gates(const Call& call, std::int64_t time) const {
    if (n.kept() == 0) return Rows{call.y, n.hidden}.from(time * n.batch);
    return Rows{call.kept, n.kept_width()}.from(time * n.batch);
  }

  void input_part(const Call& call, std::int64_t begin, std::int64_t end) const {
    const std::int64_t first = n.first_time(begin, end);
    sgemm({'N', 'T', (end - begin) * n.batch, n.gate_width(), n.inputs},
          Rows{call.x, n.inputs}.from(first * n.batch), {call.w_input, n.inputs},
          gates(call, first));
  }

  void step(const Call& call, std::int64_t s) const {
    const Rows h_prev{const_cast<float*>(state_before(s, call.h0, call.y)), n.hidden};
    const Rows weight{call.w_hidden, n.gate_width()};
    const Rows row = gates(call, n.time(s));
    Product product{'N', 'N', n.batch, n.gate_width(), n.hidden, 1.0f, 1.0f};
    if (n.mode == RnnMode::gru) {
      product.beta = 0.0f;
      sgemm(product, h_prev, weight, {call.hidden_part, n.gate_width()});
    } else {
      sgemm(product, h_prev, weight, row);
    }
    for (std::int64_t i = 0; i < n.batch; ++i)
      if (call.sequences.goes_on(i, n.time(s)))
        sample(call, s, i, row.row(i), h_prev.row(i));
      else
        stay(call, s, i, row.row(i), h_prev.row(i));
  }

  // Beyond the sequence's end, or before its beginning in reverse.
  void stay(const Call& call, std::int64_t s, std::int64_t i, float* row,
            const float* h_prev) const {
    if (n.kept() > 0) std::fill_n(row, n.kept_width(), 0.0f);
    if (n.has_cell()) std::copy_n(cell_before(call, s, i), n.hidden, row + n.gate_width());
    std::copy_n(h_prev, n.hidden, call.y + (n.time(s) * n.batch + i) * n.hidden);
  }

  const float* cell_before(const Call& call, std::int64_t s, std::int64_t i) const {
    return s == 0 ? call.c0 + i * n.hidden : gates(call, n.time(s - 1)).row(i) + n.gate_width();
  }

  void sample(const Call& call, std::int64_t s, std::int64_t i, float* row,
              const float* h_prev) const {
    float* h = call.y + (n.time(s) * n.batch + i) * n.hidden;
    switch (n.mode) {
      case RnnMode::lstm:
        return lstm_forward_row(
            {row, call.bias, cell_before(call, s, i), row + n.gate_width(), h, n.hidden});
      case RnnMode::gru:
        return gru_forward_row({row, call.hidden_part + i * n.gate_width(), call.b_input,
                                call.b_hidden, h_prev, h, n.hidden});
      case RnnMode::tanh: return tanh_forward_row({h, call.bias, n.hidden});
      case RnnMode::relu: return relu_forward_row({h, call.bias, n.hidden});
    }
  }

  void finish(const Call& call, const KernelBuffers& buffers) const {
    const std::int64_t state = n.batch * n.hidden;
    std::copy_n(state_before(n.steps, call.h0, call.y), state, floats(buffers.outputs[1]));
    if (!n.has_cell()) return;
    float* c_n = floats(buffers.outputs[2]);
    if (n.steps == 0) std::copy_n(call.c0, state, c_n);
    if (n.steps == 0) return;
    const Rows last = gates(call, n.time(n.steps - 1));
    for (std::int64_t i = 0; i < n.batch; ++i)
      std::copy_n(last.row(i) + n.gate_width(), n.hidden, c_n + i * n.hidden);
  }
};

class RnnBackward final : public RnnKernel {
 public:
  explicit RnnBackward(const KernelRequest& request)
      : RnnBackward(request, request.attrs.as<RnnBackwardAttrs>()) {}

  RnnBackward(const KernelRequest& request, const RnnBackwardAttrs& attrs)
      : RnnKernel(request, attrs.forward(), RnnGradInputs(attrs).count()),
        grads_(attrs),
        wants_dx_(!request.unused(0)) {
    const std::int64_t buffers = n.mode == RnnMode::gru ? 2 : 1;
    const std::int64_t passing = n.batch * n.hidden;
    const std::int64_t rows = chunk_steps(n) * n.batch * std::max(n.inputs, n.hidden);
    const std::int64_t of_lengths = n.has_lengths ? passing + rows : 0;
    scratch_bytes =
        sizeof(float) * static_cast<std::size_t>(n.hidden + buffers * dgates_size() + of_lengths);
  }

  void run(const KernelBuffers& buffers) const override {
    const OneThread one;
    const Call call = make_call(buffers);
    clear(call);
    for (std::int64_t end = n.steps; end > 0; end -= std::min(end, chunk_steps(n))) {
      const std::int64_t begin = std::max<std::int64_t>(end - chunk_steps(n), 0);
      for (std::int64_t s = end - 1; s >= begin; --s) step(call, begin, end, s);
      products(call, begin, end);
    }
    if (n.mode != RnnMode::gru) std::copy_n(call.db_input, n.gate_width(), call.db_hidden);
  }

 private:
  // dh and dc start as the gradients of the last states and end as those of the first. Where there
  // is no dy, one row of zeros stands for all of its rows.
  struct Call {
    Rows dy;
    float *dh_n, *dc_n, *x, *h0, *c0, *w_input, *w_hidden, *y, *kept;
    float *dx, *dh, *dc, *dw_input, *dw_hidden, *db_input, *db_hidden;
    float *dgates, *dhidden;  // scratch, one chunk; the same but for gru
    float* passing;           // scratch: dh of samples that stay as they are in a step
    float* rows;              // scratch: a chunk of x or of states without what is no step's
    Sequences sequences;
  };

  std::int64_t dgates_size() const { return chunk_steps(n) * n.batch * n.gate_width(); }

  Call make_call(const KernelBuffers& buffers) const {
    const auto grad = [&](bool given, std::size_t i) {
      return given ? floats(buffers.inputs[i]) : nullptr;
    };
    const auto in = [&](std::size_t i) { return floats(buffers.inputs[grads_.count() + i]); };
    const auto out = [&](std::size_t i) { return floats(buffers.outputs[i]); };
    float* zeros = floats(buffers.scratch);
    float* scratch = zeros + n.hidden;
    float* passing = scratch + (n.mode == RnnMode::gru ? 2 : 1) * dgates_size();
    std::fill_n(zeros, n.hidden, 0.0f);
    const bool cell = n.has_cell();
    return {grads_.has_dy ? Rows{grad(true, grads_.dy()), n.hidden} : Rows{zeros, 0},
            grad(grads_.has_dh, grads_.dh()),
            grad(grads_.has_dc, grads_.dc()),
            in(at.x()),
            in(at.h0()),
            cell ? in(at.c0()) : nullptr,
            in(at.w_input()),
            in(at.w_hidden()),
            in(at.count()),
            in(at.count() + 1),
            out(at.x()),
            out(at.h0()),
            cell ? out(at.c0()) : nullptr,
            out(at.w_input()),
            out(at.w_hidden()),
            out(at.b_input()),
            out(at.b_hidden()),
            scratch,
            n.mode == RnnMode::gru ? scratch + dgates_size() : scratch,
            passing,
            passing + n.batch * n.hidden,
            sequences(buffers, grads_.count())};
  }

  void clear(const Call& call) const {
    start(call.dh_n, call.dh);
    if (n.has_cell()) start(call.dc_n, call.dc);
    std::fill_n(call.db_input, n.gate_width(), 0.0f);
    std::fill_n(call.db_hidden, n.gate_width(), 0.0f);
    if (n.steps > 0) return;
    std::fill_n(call.dw_input, n.gate_width() * n.inputs, 0.0f);
    std::fill_n(call.dw_hidden, n.gate_width() * n.hidden, 0.0f);
  }

  void start(const float* given, float* state) const {
    if (given == nullptr)
      std::fill_n(state, n.batch * n.hidden, 0.0f);
    else
      std::copy_n(given, n.batch * n.hidden, state);
  }

  Rows local(float* chunk, std::int64_t begin, std::int64_t end, std::int64_t s) const {
    const std::int64_t row = (n.time(s) - n.first_time(begin, end)) * n.batch;
    return Rows{chunk, n.gate_width()}.from(row);
  }

  void step(const Call& call, std::int64_t begin, std::int64_t end, std::int64_t s) const {
    const Rows dgates = local(call.dgates, begin, end, s);
    const Rows dhidden = local(call.dhidden, begin, end, s);
    for (std::int64_t i = 0; i < n.batch; ++i)
      if (call.sequences.goes_on(i, n.time(s)))
        sample(call, s, i, dgates.row(i), dhidden.row(i));
      else
        pass_by(call, s, i, dgates.row(i), dhidden.row(i));
    const float beta = n.mode == RnnMode::gru ? 1.0f : 0.0f;
    sgemm({'N', 'N', n.batch, n.hidden, n.gate_width(), 1.0f, beta}, dhidden,
          {call.w_hidden, n.hidden}, {call.dh, n.hidden});
    for (std::int64_t i = 0; i < n.batch && !call.sequences.all(); ++i)
      if (!call.sequences.goes_on(i, n.time(s)))
        std::copy_n(call.passing + i * n.hidden, n.hidden, call.dh + i * n.hidden);
  }

  void pass_by(const Call& call, std::int64_t s, std::int64_t i, float* dgates,
               float* dhidden) const {
    const float* dy = call.dy.row(n.time(s) * n.batch + i);
    const float* dh = call.dh + i * n.hidden;
    float* passing = call.passing + i * n.hidden;
    for (std::int64_t j = 0; j < n.hidden; ++j) passing[j] = dh[j] + dy[j];
    std::fill_n(dgates, n.gate_width(), 0.0f);
    std::fill_n(dhidden, n.gate_width(), 0.0f);
  }

  void sample(const Call& call, std::int64_t s, std::int64_t i, float* dgates,
              float* dhidden) const {
    const std::int64_t row = n.time(s) * n.batch + i;
    const float* kept = call.kept + row * n.kept_width();
    const float* dy = call.dy.row(row);
    const float* y = call.y + row * n.hidden;
    float* dh = call.dh + i * n.hidden;
    switch (n.mode) {
      case RnnMode::lstm:
        return lstm_backward_row({kept, cell_before(call, s, i), kept + n.gate_width(), dy, dh,
                                  call.dc + i * n.hidden, dgates, call.db_input, n.hidden});
      case RnnMode::gru:
        return gru_backward_row({kept, state_before(s, call.h0, call.y) + i * n.hidden, dy, dh,
                                 dgates, dhidden, call.db_input, call.db_hidden, n.hidden});
      case RnnMode::tanh: return tanh_backward_row({y, dy, dh, dgates, call.db_input, n.hidden});
      case RnnMode::relu: return relu_backward_row({y, dy, dh, dgates, call.db_input, n.hidden});
    }
  }

  const float* cell_before(const Call& call, std::int64_t s, std::int64_t i) const {
    if (s == 0) return call.c0 + i * n.hidden;
    return call.kept + (n.time(s - 1) * n.batch + i) * n.kept_width() + n.gate_width();
  }

  // Calls f(row) for those of steps `begin` to `end` that are beyond their sequence's end.
  template <class F>
  void for_ended_rows(const Call& call, std::int64_t begin, std::int64_t end, F&& f) const {
    const std::int64_t first = n.first_time(begin, end);
    for (std::int64_t row = 0; row < (end - begin) * n.batch && !call.sequences.all(); ++row)
      if (!call.sequences.goes_on(row % n.batch, first + row / n.batch)) f(row);
  }

  // What these steps have read, with zeros beyond a sequence's end: what stands there is of no
  // step, and a NaN would outlast being multiplied by a gradient of 0.
  Rows as_read(const Call& call, std::int64_t begin, std::int64_t end, Rows source) const {
    if (call.sequences.all()) return source;
    const Rows copy{call.rows, source.stride};
    std::copy_n(source.data, (end - begin) * n.batch * source.stride, copy.data);
    for_ended_rows(call, begin, end,
                   [&](std::int64_t row) { std::fill_n(copy.row(row), copy.stride, 0.0f); });
    return copy;
  }

  // What the whole chunk adds to the gradients of x and the weights.
  void products(const Call& call, std::int64_t begin, std::int64_t end) const {
    const std::int64_t rows = (end - begin) * n.batch;
    const std::int64_t first = n.first_time(begin, end) * n.batch;
    const Rows dgates{call.dgates, n.gate_width()};
    const float beta = end == n.steps ? 0.0f : 1.0f;
    sgemm({'T', 'N', n.gate_width(), n.inputs, rows, 1.0f, beta}, dgates,
          as_read(call, begin, end, Rows{call.x, n.inputs}.from(first)), {call.dw_input, n.inputs});
    const Rows dx = Rows{call.dx, n.inputs}.from(first);
    if (wants_dx_) {
      sgemm({'N', 'N', rows, n.inputs, n.gate_width()}, dgates, {call.w_input, n.inputs}, dx);
      for_ended_rows(call, begin, end,
                     [&](std::int64_t row) { std::fill_n(dx.row(row), n.inputs, 0.0f); });
    }
    hidden_product(call, begin, end, beta);
  }

  // The states before the chunk's steps are rows of y, one step off, except for h0.
  void hidden_product(const Call& call, std::int64_t begin, std::int64_t end, float beta) const {
    const Rows dw{call.dw_hidden, n.hidden};
    if (begin == 0) {
      sgemm({'T', 'N', n.gate_width(), n.hidden, n.batch, 1.0f, beta},
            local(call.dhidden, begin, end, 0), as_read(call, 0, 1, {call.h0, n.hidden}), dw);
      beta = 1.0f;
    }
    const std::int64_t from = std::max<std::int64_t>(begin, 1);
    if (from >= end) return;
    const std::int64_t skipped = n.first_time(from, end) - n.first_time(begin, end);
    const Rows before = Rows{call.y, n.hidden}.from(n.first_time(from - 1, end - 1) * n.batch);
    sgemm({'T', 'N', n.gate_width(), n.hidden, (end - from) * n.batch, 1.0f, beta},
          Rows{call.dhidden, n.gate_width()}.from(skipped * n.batch),
          as_read(call, from, end, before), dw);
  }

  RnnGradInputs grads_;
  bool wants_dx_;
};

std::unique_ptr<PreparedKernel> prepare_forward(const KernelRequest& request, std::string&) {
  return std::make_unique<RnnForward>(request);
}

std::unique_ptr<PreparedKernel> prepare_backward(const KernelRequest& request, std::string&) {
  return std::make_unique<RnnBackward>(request);
}

}  // namespace

std::span<const KernelCandidate> rnn_layer_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "sgemm", .dtypes = {DType::float32}, .prepare = prepare_forward},
      {.name = "reference", .dtypes = {DType::float64}, .direct = rnn_layer_reference}};
  return kernels;
}

std::span<const KernelCandidate> rnn_layer_backward_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "sgemm", .dtypes = {DType::float32}, .prepare = prepare_backward},
      {.name = "reference", .dtypes = {DType::float64}, .direct = rnn_layer_backward_reference}};
  return kernels;
}

}  // namespace lockstep::kernels
