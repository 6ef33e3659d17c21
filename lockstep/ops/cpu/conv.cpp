// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/conv.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "lockstep/ops/conv_attrs.h"

namespace lockstep::kernels {
namespace {

using std::int64_t;

// A row of the output meets a row of the input under one element of the weight: output position i
// belongs to input position i * stride.
struct Rows {
  int64_t x, w, y;  // offsets of the first elements
  int64_t count;
};

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// The output positions of one axis whose input position under kernel element k is inside.
struct Range {
  int64_t first, last, input_of_first;
};
Range covered(const ConvProblem& p, std::size_t axis, int64_t k) {
  const int64_t shift = k * p.dilation[axis] - p.padding[axis];
  const int64_t first = std::max<int64_t>(0, ceil_div(-shift, p.stride[axis]));
  const int64_t last = std::min(p.output[axis], ceil_div(p.input[axis] - shift, p.stride[axis]));
  return {first, std::max(first, last), first * p.stride[axis] + shift};
}

// Calls f(Rows) for each pair of rows of one image plane under one kernel plane.
template <class F>
void for_each_row(const ConvProblem& p, int64_t x, int64_t w, int64_t y, const F& f) {
  for (int64_t kd = 0; kd < p.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < p.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < p.kernel[2]; ++kw, ++w) {
        const Range d = covered(p, 0, kd), h = covered(p, 1, kh), r = covered(p, 2, kw);
        if (r.first == r.last) continue;
        for (int64_t od = d.first; od < d.last; ++od)
          for (int64_t oh = h.first; oh < h.last; ++oh) {
            const int64_t id = d.input_of_first + (od - d.first) * p.stride[0];
            const int64_t ih = h.input_of_first + (oh - h.first) * p.stride[1];
            f(Rows{x + (id * p.input[1] + ih) * p.input[2] + r.input_of_first, w,
                   y + (od * p.output[1] + oh) * p.output[2] + r.first, r.last - r.first});
          }
      }
}

int64_t volume(const ConvProblem::Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Calls f(Rows) for everything that meets, in one fixed order.
template <class F>
void for_each_pair(const ConvProblem& p, const F& f) {
  const int64_t in = volume(p.input), out = volume(p.output), kernel = volume(p.kernel);
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_channels; ++o)
      for (int64_t c = 0; c < p.group_in(); ++c) {
        const int64_t channel = o / p.group_out() * p.group_in() + c;
        for_each_row(p, (n * p.in_channels + channel) * in, (o * p.group_in() + c) * kernel,
                     (n * p.out_channels + o) * out, f);
      }
}

// Spatial axes at the end, size 1 before them, so that rows are always the last axis.
ConvProblem three_axes(ConvProblem p) {
  const auto turn = [&](ConvProblem::Sizes& sizes) {
    std::rotate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(p.spatial), sizes.end());
  };
  for (ConvProblem::Sizes* sizes :
       {&p.input, &p.kernel, &p.output, &p.stride, &p.padding, &p.dilation})
    turn(*sizes);
  return p;
}

// Channel c of an [N, C, ...] array starts at bias[c], or at zero.
template <class T>
void fill_channels(T* y, int64_t batch, int64_t channels, int64_t plane, const T* bias) {
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c, y += plane)
      std::fill_n(y, plane, bias == nullptr ? T(0) : bias[c]);
}

template <class T>
const T* optional_input(const KernelCall& call, std::size_t index) {
  return call.inputs.size() > index ? call.inputs[index].as<T>() : nullptr;
}

template <class T>
void forward(const KernelCall& call) {
  const auto& attrs = call.attrs.as<ConvAttrs>();
  const TensorView& out = call.outputs[0];
  const ConvProblem p = three_axes({call.inputs[0].shape, call.inputs[1].shape, out.shape, attrs});
  const T *x = call.inputs[0].as<T>(), *w = call.inputs[1].as<T>();
  T* y = out.as<T>();
  fill_channels(y, p.batch, p.out_channels, volume(p.output), optional_input<T>(call, 2));
  for_each_pair(p, [&, stride = p.stride[2]](const Rows& rows) {
    for (int64_t i = 0; i < rows.count; ++i) y[rows.y + i] += w[rows.w] * x[rows.x + i * stride];
  });
  if (attrs.activation == "relu")
    std::transform(y, y + out.numel(), y, [](T v) { return std::max(v, T(0)); });
}

template <class T>
void backward_data(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const ConvProblem p = three_axes(
      {out.shape, call.inputs[1].shape, call.inputs[0].shape, call.attrs.as<ConvDataAttrs>()});
  const T *dy = call.inputs[0].as<T>(), *w = call.inputs[1].as<T>();
  T* dx = out.as<T>();
  fill_channels(dx, p.batch, p.in_channels, volume(p.input), optional_input<T>(call, 2));
  for_each_pair(p, [&, stride = p.stride[2]](const Rows& rows) {
    for (int64_t i = 0; i < rows.count; ++i) dx[rows.x + i * stride] += w[rows.w] * dy[rows.y + i];
  });
}

// Sums over all places of all samples are in double: one may have thousands of equal terms.
template <class T>
void sum_channels(const ConvProblem& p, const T* dy, T* db) {
  const int64_t plane = volume(p.output);
  for (int64_t o = 0; o < p.out_channels; ++o) {
    double total = 0;
    for (int64_t n = 0; n < p.batch; ++n) {
      const T* first = dy + (n * p.out_channels + o) * plane;
      total = std::accumulate(first, first + plane, total);
    }
    db[o] = static_cast<T>(total);
  }
}

template <class T>
void backward_weights(const KernelCall& call) {
  const auto& attrs = call.attrs.as<ConvWeightsAttrs>();
  const TensorView& out = call.outputs[0];
  const ConvProblem p = three_axes({call.inputs[0].shape, out.shape, call.inputs[1].shape, attrs});
  const T *x = call.inputs[0].as<T>(), *dy = call.inputs[1].as<T>();
  std::vector<double> sums(static_cast<std::size_t>(out.numel()));
  for_each_pair(p, [&, stride = p.stride[2]](const Rows& rows) {
    double total = 0;
    for (int64_t i = 0; i < rows.count; ++i)
      total += static_cast<double>(x[rows.x + i * stride]) * static_cast<double>(dy[rows.y + i]);
    sums[static_cast<std::size_t>(rows.w)] += total;
  });
  std::transform(sums.begin(), sums.end(), out.as<T>(), [](double v) { return static_cast<T>(v); });
  if (attrs.with_bias) sum_channels(p, dy, call.outputs[1].as<T>());
}

constexpr DTypeSet kDnnlTypes{DType::float32, DType::bfloat16};
constexpr DTypeSet kFloat32{DType::float32};
constexpr DTypeSet kFloat64{DType::float64};

}  // namespace

std::span<const KernelCandidate> conv() {
  static constexpr KernelCandidate list[] = {
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_conv},
      {.name = "reference", .dtypes = kFloat32, .direct = forward<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = forward<double>}};
  return list;
}

std::span<const KernelCandidate> conv_backward_data() {
  static constexpr KernelCandidate list[] = {
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_conv_backward_data},
      {.name = "reference", .dtypes = kFloat32, .direct = backward_data<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = backward_data<double>}};
  return list;
}

std::span<const KernelCandidate> conv_backward_weights() {
  static constexpr KernelCandidate list[] = {
      {.name = "onednn", .dtypes = kDnnlTypes, .prepare = prepare_conv_backward_weights},
      {.name = "reference", .dtypes = kFloat32, .direct = backward_weights<float>},
      {.name = "reference", .dtypes = kFloat64, .direct = backward_weights<double>}};
  return list;
}

}  // namespace lockstep::kernels
