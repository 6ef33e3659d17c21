// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/rnn_gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/rnn_gates.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// A place in a row: a whole vector from `i` on, or the row's last elements, fewer than a vector,
// which go through a buffer.
template <bool kWhole>
struct Place {
  std::int64_t i;
  std::size_t count;

  HWY_INLINE FloatVec load(const float* row) const {
    const FloatTag d;
    if constexpr (kWhole) return hn::LoadU(d, row + i);
    HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
    for (std::size_t k = 0; k < count; ++k) buffer[k] = row[i + static_cast<std::int64_t>(k)];
    return hn::Load(d, buffer);
  }
  HWY_INLINE FloatVec load_sum(const float* a, const float* b) const {
    return hn::Add(load(a), load(b));
  }
  HWY_INLINE void store(FloatVec x, float* row) const {
    const FloatTag d;
    if constexpr (kWhole) {
      hn::StoreU(x, d, row + i);
    } else {
      HWY_ALIGN float buffer[hn::MaxLanes(d)];
      hn::Store(x, d, buffer);
      for (std::size_t k = 0; k < count; ++k) row[i + static_cast<std::int64_t>(k)] = buffer[k];
    }
  }
  HWY_INLINE void add_to(FloatVec x, float* row) const { store(hn::Add(load(row), x), row); }
};

template <class F>
HWY_INLINE void each(std::int64_t size, F&& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes) f(Place<true>{i, static_cast<std::size_t>(lanes)});
  if (i < size) f(Place<false>{i, static_cast<std::size_t>(size - i)});
}

// dy * y * (1 - y)
HWY_INLINE FloatVec SigmoidGrad(FloatVec dy, FloatVec y) {
  return hn::Mul(dy, hn::NegMulAdd(y, y, y));
}

// dy * (1 - y * y)
HWY_INLINE FloatVec TanhGrad(FloatVec dy, FloatVec y) {
  return hn::NegMulAdd(hn::Mul(dy, y), y, dy);
}

void LstmForward(const LstmRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto at) HWY_ATTR {
    const auto in = vector_sigmoid(at.load_sum(r.gates, r.bias));
    const auto forget = vector_sigmoid(at.load_sum(r.gates + n, r.bias + n));
    const auto cell = vector_tanh(at.load_sum(r.gates + 2 * n, r.bias + 2 * n));
    const auto out = vector_sigmoid(at.load_sum(r.gates + 3 * n, r.bias + 3 * n));
    const auto c = hn::MulAdd(forget, at.load(r.c_prev), hn::Mul(in, cell));
    at.store(in, r.gates);
    at.store(forget, r.gates + n);
    at.store(cell, r.gates + 2 * n);
    at.store(out, r.gates + 3 * n);
    at.store(c, r.c);
    at.store(hn::Mul(out, vector_tanh(c)), r.h);
  });
}

void LstmBackward(const LstmBackwardRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto at) HWY_ATTR {
    const auto in = at.load(r.gates);
    const auto forget = at.load(r.gates + n);
    const auto cell = at.load(r.gates + 2 * n);
    const auto out = at.load(r.gates + 3 * n);
    const auto squashed = vector_tanh(at.load(r.c));
    const auto dh = at.load_sum(r.dy, r.dh);
    const auto dc = hn::Add(at.load(r.dc), TanhGrad(hn::Mul(dh, out), squashed));
    const auto di = SigmoidGrad(hn::Mul(dc, cell), in);
    const auto df = SigmoidGrad(hn::Mul(dc, at.load(r.c_prev)), forget);
    const auto dg = TanhGrad(hn::Mul(dc, in), cell);
    const auto dout = SigmoidGrad(hn::Mul(dh, squashed), out);
    at.store(hn::Mul(dc, forget), r.dc);
    at.store(di, r.dgates);
    at.store(df, r.dgates + n);
    at.store(dg, r.dgates + 2 * n);
    at.store(dout, r.dgates + 3 * n);
    at.add_to(di, r.dbias);
    at.add_to(df, r.dbias + n);
    at.add_to(dg, r.dbias + 2 * n);
    at.add_to(dout, r.dbias + 3 * n);
  });
}

void GruForward(const GruRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto at) HWY_ATTR {
    const auto input = [&](std::int64_t gate) HWY_ATTR {
      return at.load_sum(r.kept + gate * n, r.b_input + gate * n);
    };
    const auto hidden = [&](std::int64_t gate) HWY_ATTR {
      return at.load_sum(r.hidden + gate * n, r.b_hidden + gate * n);
    };
    const auto reset = vector_sigmoid(hn::Add(input(0), hidden(0)));
    const auto update = vector_sigmoid(hn::Add(input(1), hidden(1)));
    const auto part = hidden(2);
    const auto fresh = vector_tanh(hn::MulAdd(reset, part, input(2)));
    const auto past = hn::Sub(at.load(r.h_prev), fresh);
    at.store(reset, r.kept);
    at.store(update, r.kept + n);
    at.store(fresh, r.kept + 2 * n);
    at.store(part, r.kept + 3 * n);
    at.store(hn::MulAdd(update, past, fresh), r.h);
  });
}

void GruBackward(const GruBackwardRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto at) HWY_ATTR {
    const auto reset = at.load(r.kept);
    const auto update = at.load(r.kept + n);
    const auto fresh = at.load(r.kept + 2 * n);
    const auto part = at.load(r.kept + 3 * n);
    const auto dh = at.load_sum(r.dy, r.dh);
    const auto past = hn::Sub(at.load(r.h_prev), fresh);
    const auto dz = SigmoidGrad(hn::Mul(dh, past), update);
    const auto dn = TanhGrad(hn::NegMulAdd(dh, update, dh), fresh);
    const auto dr = SigmoidGrad(hn::Mul(dn, part), reset);
    const auto dpart = hn::Mul(dn, reset);
    at.store(hn::Mul(dh, update), r.dh);
    const auto put = [&](std::int64_t gate, auto dinput, auto dhidden) HWY_ATTR {
      at.store(dinput, r.dinput + gate * n);
      at.store(dhidden, r.dhidden + gate * n);
      at.add_to(dinput, r.db_input + gate * n);
      at.add_to(dhidden, r.db_hidden + gate * n);
    };
    put(0, dr, dr);
    put(1, dz, dz);
    put(2, dn, dpart);
  });
}

void TanhForward(const PlainRow& r) {
  each(r.size, [&](auto at) HWY_ATTR { at.store(vector_tanh(at.load_sum(r.h, r.bias)), r.h); });
}

void ReluForward(const PlainRow& r) {
  each(r.size, [&](auto at) HWY_ATTR {
    const auto sum = at.load_sum(r.h, r.bias);
    at.store(hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(FloatTag())), sum), r.h);
  });
}

void TanhBackward(const PlainBackwardRow& r) {
  each(r.size, [&](auto at) HWY_ATTR {
    const auto dpre = TanhGrad(at.load_sum(r.dy, r.dh), at.load(r.h));
    at.store(dpre, r.dgates);
    at.add_to(dpre, r.dbias);
  });
}

void ReluBackward(const PlainBackwardRow& r) {
  each(r.size, [&](auto at) HWY_ATTR {
    const auto stopped = hn::Le(at.load(r.h), hn::Zero(FloatTag()));
    const auto dpre = hn::IfThenZeroElse(stopped, at.load_sum(r.dy, r.dh));
    at.store(dpre, r.dgates);
    at.add_to(dpre, r.dbias);
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(LstmForward);
HWY_EXPORT(LstmBackward);
HWY_EXPORT(GruForward);
HWY_EXPORT(GruBackward);
HWY_EXPORT(TanhForward);
HWY_EXPORT(ReluForward);
HWY_EXPORT(TanhBackward);
HWY_EXPORT(ReluBackward);

void lstm_forward_row(const LstmRow& row) { HWY_DYNAMIC_DISPATCH(LstmForward)(row); }
void lstm_backward_row(const LstmBackwardRow& row) { HWY_DYNAMIC_DISPATCH(LstmBackward)(row); }
void gru_forward_row(const GruRow& row) { HWY_DYNAMIC_DISPATCH(GruForward)(row); }
void gru_backward_row(const GruBackwardRow& row) { HWY_DYNAMIC_DISPATCH(GruBackward)(row); }
void tanh_forward_row(const PlainRow& row) { HWY_DYNAMIC_DISPATCH(TanhForward)(row); }
void relu_forward_row(const PlainRow& row) { HWY_DYNAMIC_DISPATCH(ReluForward)(row); }
void tanh_backward_row(const PlainBackwardRow& row) { HWY_DYNAMIC_DISPATCH(TanhBackward)(row); }
void relu_backward_row(const PlainBackwardRow& row) { HWY_DYNAMIC_DISPATCH(ReluBackward)(row); }

}  // namespace lockstep::kernels
#endif
