// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/cpu/rnn_gates.h"
#include "lockstep/ops/cpu/rnn_kernel.h"

namespace lockstep::kernels {
namespace {

class RnnForward final : public RnnKernel {
 public:
  explicit RnnForward(const KernelRequest& request)
      : RnnKernel(request, request.attrs.as<RnnAttrs>(), 0) {
    ScratchPlan plan;
    w_input_ = plan.add(packed_floats(n.inputs, n.gate_width()));
    w_hidden_ = plan.add(packed_floats(n.hidden, n.gate_width()));
    bias_ = plan.add(n.gate_width());
    hidden_part_ = plan.add(n.mode == RnnMode::gru ? n.batch * n.gate_width() : 0);
    product_ = plan.add(std::max(product_scratch_floats(chunk_rows(), n.inputs),
                                 product_scratch_floats(n.batch, n.hidden)));
    scratch_bytes = plan.bytes();
  }

  void run(const KernelBuffers& buffers) const override {
    Call call = make_call(buffers);
    for (std::int64_t j = 0; j < n.gate_width(); ++j)
      call.bias[j] = call.b_input[j] + call.b_hidden[j];
    for (std::int64_t begin = 0; begin < n.steps; begin += chunk_steps()) {
      const std::int64_t end = std::min(begin + chunk_steps(), n.steps);
      input_part(call, begin, end);
      for (std::int64_t s = begin; s < end; ++s) step(call, s);
    }
    finish(call, buffers);
  }

 private:
  struct Call {
    float *x, *h0, *c0, *b_input, *b_hidden, *y, *kept;
    float *bias, *hidden_part, *product;  // scratch
    PackedMatrix w_input, w_hidden;
    Sequences sequences;
    ProductRows rows = {};
  };

  Call make_call(const KernelBuffers& buffers) const {
    const auto in = [&](std::size_t i) { return floats(buffers.inputs[i]); };
    float* scratch = floats(buffers.scratch);
    return {in(at.x()),
            in(at.h0()),
            n.has_cell() ? in(at.c0()) : nullptr,
            in(at.b_input()),
            in(at.b_hidden()),
            floats(buffers.outputs[0]),
            floats(buffers.outputs[at.workspace()]),
            scratch + bias_,
            scratch + hidden_part_,
            scratch + product_,
            pack_matrix({in(at.w_input()), n.inputs}, n.inputs, n.gate_width(), true,
                        scratch + w_input_),
            pack_matrix({in(at.w_hidden()), n.hidden}, n.hidden, n.gate_width(), true,
                        scratch + w_hidden_),
            sequences(buffers, 0)};
  }

  // Gates before activation are put where they are kept; a plain layer's are y itself.
  Rows gates(const Call& call, std::int64_t time) const {
    if (n.kept() == 0) return Rows{call.y, n.hidden}.from(time * n.batch);
    return Rows{call.kept, n.kept_width()}.from(time * n.batch);
  }

  void input_part(Call& call, std::int64_t begin, std::int64_t end) const {
    call.rows.clear();
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t time = n.time(s);
      const Rows x = Rows{call.x, n.inputs}.from(time * n.batch), to = gates(call, time);
      for (std::int64_t i = 0; i < n.batch; ++i)
        if (call.sequences.goes_on(i, time)) call.rows.add(x.row(i), to.row(i));
    }
    packed_product(call.rows.from, call.w_input, call.rows.to, false, call.product);
  }

  void hidden_part(Call& call, std::int64_t s, Rows h_prev) const {
    const bool apart = n.mode == RnnMode::gru;
    const Rows to = apart ? Rows{call.hidden_part, n.gate_width()} : gates(call, n.time(s));
    call.rows.clear();
    for (std::int64_t i = 0; i < n.batch; ++i)
      if (call.sequences.goes_on(i, n.time(s))) call.rows.add(h_prev.row(i), to.row(i));
    packed_product(call.rows.from, call.w_hidden, call.rows.to, !apart, call.product);
  }

  void step(Call& call, std::int64_t s) const {
    const Rows h_prev{const_cast<float*>(state_before(s, call.h0, call.y)), n.hidden};
    const Rows row = gates(call, n.time(s));
    hidden_part(call, s, h_prev);
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

  std::int64_t w_input_, w_hidden_, bias_, hidden_part_, product_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_rnn_forward(const KernelRequest& request, std::string&) {
  return std::make_unique<RnnForward>(request);
}

}  // namespace lockstep::kernels
