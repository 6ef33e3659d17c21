// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/rnn_gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/rnn_gates.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls f(tag, i) for every i, whole vectors first, then one element at a time.
template <class F>
HWY_INLINE void each(std::int64_t size, F&& f) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(whole));
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes) f(whole, i);
  for (; i < size; ++i) f(single, i);
}

// Beyond 88 exp overflows, and the sigmoid is 0 to within its smallest normal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0f)))));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadSum(D d, const float* a, const float* b) {
  return hn::Add(hn::LoadU(d, a), hn::LoadU(d, b));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddTo(D d, V x, float* target) {
  hn::StoreU(hn::Add(hn::LoadU(d, target), x), d, target);
}

// dy * y * (1 - y)
template <class V>
HWY_INLINE V SigmoidGrad(V dy, V y) {
  return hn::Mul(dy, hn::NegMulAdd(y, y, y));
}

// dy * (1 - y * y)
template <class V>
HWY_INLINE V TanhGrad(V dy, V y) {
  return hn::NegMulAdd(hn::Mul(dy, y), y, dy);
}

void LstmForward(const LstmRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto in = Sigmoid(d, LoadSum(d, r.gates + i, r.bias + i));
    const auto forget = Sigmoid(d, LoadSum(d, r.gates + n + i, r.bias + n + i));
    const auto cell = hn::Tanh(d, LoadSum(d, r.gates + 2 * n + i, r.bias + 2 * n + i));
    const auto out = Sigmoid(d, LoadSum(d, r.gates + 3 * n + i, r.bias + 3 * n + i));
    const auto c = hn::MulAdd(forget, hn::LoadU(d, r.c_prev + i), hn::Mul(in, cell));
    hn::StoreU(in, d, r.gates + i);
    hn::StoreU(forget, d, r.gates + n + i);
    hn::StoreU(cell, d, r.gates + 2 * n + i);
    hn::StoreU(out, d, r.gates + 3 * n + i);
    hn::StoreU(c, d, r.c + i);
    hn::StoreU(hn::Mul(out, hn::Tanh(d, c)), d, r.h + i);
  });
}

void LstmBackward(const LstmBackwardRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto in = hn::LoadU(d, r.gates + i);
    const auto forget = hn::LoadU(d, r.gates + n + i);
    const auto cell = hn::LoadU(d, r.gates + 2 * n + i);
    const auto out = hn::LoadU(d, r.gates + 3 * n + i);
    const auto squashed = hn::Tanh(d, hn::LoadU(d, r.c + i));
    const auto dh = LoadSum(d, r.dy + i, r.dh + i);
    const auto dc = hn::Add(hn::LoadU(d, r.dc + i), TanhGrad(hn::Mul(dh, out), squashed));
    const auto di = SigmoidGrad(hn::Mul(dc, cell), in);
    const auto df = SigmoidGrad(hn::Mul(dc, hn::LoadU(d, r.c_prev + i)), forget);
    const auto dg = TanhGrad(hn::Mul(dc, in), cell);
    const auto dout = SigmoidGrad(hn::Mul(dh, squashed), out);
    hn::StoreU(hn::Mul(dc, forget), d, r.dc + i);
    hn::StoreU(di, d, r.dgates + i);
    hn::StoreU(df, d, r.dgates + n + i);
    hn::StoreU(dg, d, r.dgates + 2 * n + i);
    hn::StoreU(dout, d, r.dgates + 3 * n + i);
    AddTo(d, di, r.dbias + i);
    AddTo(d, df, r.dbias + n + i);
    AddTo(d, dg, r.dbias + 2 * n + i);
    AddTo(d, dout, r.dbias + 3 * n + i);
  });
}

void GruForward(const GruRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto input = [&](std::int64_t gate) HWY_ATTR {
      return LoadSum(d, r.kept + gate * n + i, r.b_input + gate * n + i);
    };
    const auto hidden = [&](std::int64_t gate) HWY_ATTR {
      return LoadSum(d, r.hidden + gate * n + i, r.b_hidden + gate * n + i);
    };
    const auto reset = Sigmoid(d, hn::Add(input(0), hidden(0)));
    const auto update = Sigmoid(d, hn::Add(input(1), hidden(1)));
    const auto part = hidden(2);
    const auto fresh = hn::Tanh(d, hn::MulAdd(reset, part, input(2)));
    const auto past = hn::Sub(hn::LoadU(d, r.h_prev + i), fresh);
    hn::StoreU(reset, d, r.kept + i);
    hn::StoreU(update, d, r.kept + n + i);
    hn::StoreU(fresh, d, r.kept + 2 * n + i);
    hn::StoreU(part, d, r.kept + 3 * n + i);
    hn::StoreU(hn::MulAdd(update, past, fresh), d, r.h + i);
  });
}

void GruBackward(const GruBackwardRow& r) {
  const std::int64_t n = r.size;
  each(n, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto reset = hn::LoadU(d, r.kept + i);
    const auto update = hn::LoadU(d, r.kept + n + i);
    const auto fresh = hn::LoadU(d, r.kept + 2 * n + i);
    const auto part = hn::LoadU(d, r.kept + 3 * n + i);
    const auto dh = LoadSum(d, r.dy + i, r.dh + i);
    const auto past = hn::Sub(hn::LoadU(d, r.h_prev + i), fresh);
    const auto dz = SigmoidGrad(hn::Mul(dh, past), update);
    const auto dn = TanhGrad(hn::NegMulAdd(dh, update, dh), fresh);
    const auto dr = SigmoidGrad(hn::Mul(dn, part), reset);
    const auto dpart = hn::Mul(dn, reset);
    hn::StoreU(hn::Mul(dh, update), d, r.dh + i);
    const auto put = [&](std::int64_t gate, auto dinput, auto dhidden) HWY_ATTR {
      hn::StoreU(dinput, d, r.dinput + gate * n + i);
      hn::StoreU(dhidden, d, r.dhidden + gate * n + i);
      AddTo(d, dinput, r.db_input + gate * n + i);
      AddTo(d, dhidden, r.db_hidden + gate * n + i);
    };
    put(0, dr, dr);
    put(1, dz, dz);
    put(2, dn, dpart);
  });
}

void TanhForward(const PlainRow& r) {
  each(r.size, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Tanh(d, LoadSum(d, r.h + i, r.bias + i)), d, r.h + i);
  });
}

void ReluForward(const PlainRow& r) {
  each(r.size, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Max(LoadSum(d, r.h + i, r.bias + i), hn::Zero(d)), d, r.h + i);
  });
}

void TanhBackward(const PlainBackwardRow& r) {
  each(r.size, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto dpre = TanhGrad(LoadSum(d, r.dy + i, r.dh + i), hn::LoadU(d, r.h + i));
    hn::StoreU(dpre, d, r.dgates + i);
    AddTo(d, dpre, r.dbias + i);
  });
}

void ReluBackward(const PlainBackwardRow& r) {
  each(r.size, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto passes = hn::Gt(hn::LoadU(d, r.h + i), hn::Zero(d));
    const auto dpre = hn::IfThenElseZero(passes, LoadSum(d, r.dy + i, r.dh + i));
    hn::StoreU(dpre, d, r.dgates + i);
    AddTo(d, dpre, r.dbias + i);
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
