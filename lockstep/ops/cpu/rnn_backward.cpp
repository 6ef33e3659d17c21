// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/rnn_gates.h"
#include "lockstep/ops/cpu/rnn_kernel.h"

namespace lockstep::kernels {
namespace {

class RnnBackward final : public RnnKernel {
 public:
  explicit RnnBackward(const KernelRequest& request)
      : RnnBackward(request, request.attrs.as<RnnBackwardAttrs>()) {}

  RnnBackward(const KernelRequest& request, const RnnBackwardAttrs& attrs)
      : RnnKernel(request, attrs.forward(), RnnGradInputs(attrs).count()),
        grads_(attrs),
        wants_dx_(!request.unused(0)) {
    const std::int64_t rows = chunk_rows();
    ScratchPlan plan;
    w_input_ = plan.add(wants_dx_ ? packed_floats(n.gate_width(), n.inputs) : 0);
    w_hidden_ = plan.add(packed_floats(n.gate_width(), n.hidden));
    zeros_ = plan.add(n.hidden);
    dgates_ = plan.add(rows * n.gate_width());
    dhidden_ = n.mode == RnnMode::gru ? plan.add(rows * n.gate_width()) : dgates_;
    read_ = plan.add(rows * std::max(n.inputs, n.hidden));
    product_ = plan.add(product_scratch_floats(rows, n.gate_width()));
    scratch_bytes = plan.bytes();
  }

  void run(const KernelBuffers& buffers) const override {
    const OneThread one;
    Call call = make_call(buffers);
    clear(call);
    for (std::int64_t end = n.steps; end > 0; end -= std::min(end, chunk_steps())) {
      const Chunk chunk = make_chunk(call, std::max<std::int64_t>(end - chunk_steps(), 0), end);
      for (std::int64_t s = end - 1; s >= chunk.begin; --s) step(call, chunk, s);
      input_products(call, chunk);
      hidden_product(call, chunk);
    }
    if (n.mode != RnnMode::gru) std::copy_n(call.db_input, n.gate_width(), call.db_hidden);
  }

 private:
  // dh and dc start as the gradients of the last states and end as those of the first. Where there
  // is no dy, one row of zeros stands for all of its rows.
  struct Call {
    Rows dy;
    float *dh_n, *dc_n, *x, *h0, *c0, *y, *kept;
    float *dx, *dh, *dc, *dw_input, *dw_hidden, *db_input, *db_hidden;
    float *dgates, *dhidden;  // scratch, one chunk's rows; the same but for gru
    float *read, *product;    // scratch: a chunk's rows of x or of states, and a product's
    PackedMatrix w_input, w_hidden;
    Sequences sequences;
    ProductRows rows = {};
  };

  // Steps [begin, end): the rows of those that go on, in order of time.
  struct Chunk {
    struct Row {
      std::int64_t step, sample;
    };
    std::int64_t begin, end;
    std::vector<Row> rows = {};
    std::vector<std::int64_t> first_of_step = {};

    std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
    std::int64_t first(std::int64_t s) const {
      return first_of_step[static_cast<std::size_t>(s - begin)];
    }
  };

  Chunk make_chunk(const Call& call, std::int64_t begin, std::int64_t end) const {
    Chunk chunk{begin, end};
    chunk.first_of_step.resize(static_cast<std::size_t>(end - begin));
    for (std::int64_t k = 0; k < end - begin; ++k) {
      const std::int64_t s = n.reverse ? end - 1 - k : begin + k;
      chunk.first_of_step[static_cast<std::size_t>(s - begin)] = chunk.count();
      for (std::int64_t i = 0; i < n.batch; ++i)
        if (call.sequences.goes_on(i, n.time(s))) chunk.rows.push_back({s, i});
    }
    return chunk;
  }

  Call make_call(const KernelBuffers& buffers) const {
    const auto grad = [&](bool given, std::size_t i) {
      return given ? floats(buffers.inputs[i]) : nullptr;
    };
    const auto in = [&](std::size_t i) { return floats(buffers.inputs[grads_.count() + i]); };
    const auto out = [&](std::size_t i) { return floats(buffers.outputs[i]); };
    float* scratch = floats(buffers.scratch);
    const auto packed = [&](std::size_t i, std::int64_t columns, std::int64_t to) {
      return pack_matrix({in(i), columns}, n.gate_width(), columns, false, scratch + to);
    };
    std::fill_n(scratch + zeros_, n.hidden, 0.0f);
    const bool cell = n.has_cell();
    return {grads_.has_dy ? Rows{grad(true, grads_.dy()), n.hidden} : Rows{scratch + zeros_, 0},
            grad(grads_.has_dh, grads_.dh()),
            grad(grads_.has_dc, grads_.dc()),
            in(at.x()),
            in(at.h0()),
            cell ? in(at.c0()) : nullptr,
            in(at.count()),
            in(at.count() + 1),
            out(at.x()),
            out(at.h0()),
            cell ? out(at.c0()) : nullptr,
            out(at.w_input()),
            out(at.w_hidden()),
            out(at.b_input()),
            out(at.b_hidden()),
            scratch + dgates_,
            scratch + dhidden_,
            scratch + read_,
            scratch + product_,
            wants_dx_ ? packed(at.w_input(), n.inputs, w_input_) : PackedMatrix{},
            packed(at.w_hidden(), n.hidden, w_hidden_),
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

  // A sequence that has no part in the step hands its gradient on.
  void step(Call& call, const Chunk& chunk, std::int64_t s) const {
    Rows dgates = Rows{call.dgates, n.gate_width()}.from(chunk.first(s));
    Rows dhidden = Rows{call.dhidden, n.gate_width()}.from(chunk.first(s));
    call.rows.clear();
    for (std::int64_t i = 0; i < n.batch; ++i) {
      float* dh = call.dh + i * n.hidden;
      if (call.sequences.goes_on(i, n.time(s))) {
        sample(call, s, i, dgates.data, dhidden.data);
        call.rows.add(dhidden.data, dh);
        dgates = dgates.from(1);
        dhidden = dhidden.from(1);
      } else {
        const float* dy = call.dy.row(n.time(s) * n.batch + i);
        for (std::int64_t j = 0; j < n.hidden; ++j) dh[j] += dy[j];
      }
    }
    packed_product(call.rows.from, call.w_hidden, call.rows.to, n.mode == RnnMode::gru,
                   call.product);
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

  // What the chunk's rows have read, side by side: row_of(step, sample), `width` floats.
  template <class F>
  Rows as_read(const Call& call, const Chunk& chunk, std::int64_t width, const F& row_of) const {
    float* to = call.read;
    for (const auto& [step, sample] : chunk.rows) to = std::copy_n(row_of(step, sample), width, to);
    return {call.read, width};
  }

  // What the chunk adds to a weight's gradient, [G H, width].
  void weight_product(const Chunk& chunk, float* dgates, Rows read, float* dw) const {
    const float beta = chunk.end == n.steps ? 0.0f : 1.0f;
    sgemm({'T', 'N', n.gate_width(), read.stride, chunk.count(), 1.0f, beta},
          {dgates, n.gate_width()}, read, {dw, read.stride});
  }

  void input_products(Call& call, const Chunk& chunk) const {
    const auto row_at = [&](float* rows, std::int64_t s, std::int64_t i) {
      return rows + (n.time(s) * n.batch + i) * n.inputs;
    };
    const Rows x = as_read(call, chunk, n.inputs,
                           [&](std::int64_t s, std::int64_t i) { return row_at(call.x, s, i); });
    weight_product(chunk, call.dgates, x, call.dw_input);
    if (!wants_dx_) return;
    const std::int64_t first = n.first_time(chunk.begin, chunk.end) * n.batch;
    if (chunk.count() < (chunk.end - chunk.begin) * n.batch)
      std::fill_n(call.dx + first * n.inputs, (chunk.end - chunk.begin) * n.batch * n.inputs, 0.0f);
    call.rows.clear();
    for (const auto& [s, i] : chunk.rows)
      call.rows.add(call.dgates + static_cast<std::int64_t>(call.rows.from.size()) * n.gate_width(),
                    row_at(call.dx, s, i));
    packed_product(call.rows.from, call.w_input, call.rows.to, false, call.product);
  }

  void hidden_product(const Call& call, const Chunk& chunk) const {
    const Rows before = as_read(call, chunk, n.hidden, [&](std::int64_t s, std::int64_t i) {
      return state_before(s, call.h0, call.y) + i * n.hidden;
    });
    weight_product(chunk, call.dhidden, before, call.dw_hidden);
  }

  RnnGradInputs grads_;
  bool wants_dx_;
  std::int64_t w_input_, w_hidden_, zeros_, dgates_, dhidden_, read_, product_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_rnn_backward(const KernelRequest& request, std::string&) {
  return std::make_unique<RnnBackward>(request);
}

}  // namespace lockstep::kernels
