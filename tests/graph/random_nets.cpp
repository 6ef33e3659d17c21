// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/random_nets.h"

#include <cmath>

#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/trace.h"
#include "lockstep/ops/ops.h"

namespace lockstep::testing {
namespace {

constexpr std::int64_t kBatch = 4;
constexpr std::int64_t kNetClasses = 5;

RandomLayer plain(std::function<Tensor(const Tensor&)> body) {
  return {{}, [body](const Tensor& x, const Tensors&, Tensors&) { return body(x); }};
}

double scale_of(const Shape& weight) {
  return 1.5 / std::sqrt(static_cast<double>(weight.numel()) / static_cast<double>(weight[0]));
}

Tensors picked(const Tensors& all, const std::vector<std::size_t>& which) {
  Tensors result;
  for (std::size_t i : which) result.push_back(all[i]);
  return result;
}

}  // namespace

Tensors RandomNet::inputs() const {
  Tensors all{data, labels};
  all.insert(all.end(), parameters.begin(), parameters.end());
  return all;
}

Tensors RandomNet::operator()(const Tensors& in) const {
  const Tensors values(in.begin() + kFirstParameter, in.end());
  Tensors statistics;
  Tensor x = in[0];
  for (const RandomLayer& layer : layers)
    x = layer.body(x, picked(values, layer.parameters), statistics);
  Tensors all{mean(softmax_cross_entropy(x, in[1]))};
  all.insert(all.end(), statistics.begin(), statistics.end());
  return all;
}

Graph RandomNet::with_gradients() const {
  Infos infos;
  for (const Tensor& input : inputs()) infos.push_back(input.info());
  std::vector<std::size_t> wrt;
  for (std::size_t i = 0; i < parameters.size(); ++i) wrt.push_back(kFirstParameter + i);
  return differentiate(trace(*this, infos), 0, wrt);
}

RandomNet NetDrawer::draw() {
  constexpr std::int64_t kChannels[] = {1, 3, 8, 17};
  net_ = {};
  net_.data = draw_.random({kBatch, kChannels[draw_.below(4)], 8, 8});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < kBatch; ++i) labels.push_back(draw_.below(kNetClasses));
  net_.labels = Tensor::from(labels, {kBatch});
  x_ = net_.data;
  for (std::int64_t count = 2 + draw_.below(6); count > 0; --count) add_image_layer();
  if (draw_.coin()) add(plain([](const Tensor& x) { return global_avg_pool(x); }));
  if (draw_.coin()) {
    add(dense_layer(24));
    add(activation());
  }
  add(dense_layer(kNetClasses));
  return std::move(net_);
}

void NetDrawer::add(RandomLayer layer) {
  Tensors statistics;
  x_ = layer.body(x_, picked(net_.parameters, layer.parameters), statistics);
  net_.layers.push_back(std::move(layer));
}

void NetDrawer::add_image_layer() {
  switch (draw_.below(8)) {
    case 0: return add(norm());
    case 1: return add(activation());
    case 2: return add(pool());
    case 3: return add(join());
    case 4:
      add(convolution());
      add(norm());
      return add(activation());
    case 5: add(convolution()); return add(activation());
    default: return add(convolution());
  }
}

std::size_t NetDrawer::parameter(const Shape& shape, double scale, double offset) {
  net_.parameters.push_back(draw_.random(shape, scale) + offset);
  return net_.parameters.size() - 1;
}

RandomLayer NetDrawer::convolution() {
  constexpr std::int64_t kChannels[] = {3, 8, 16, 20};
  const std::int64_t in = x_.shape(1);
  ConvOptions options;
  const std::int64_t kernel = draw_.coin() ? 3 : 1;
  options.padding = {kernel / 2};
  options.stride = {x_.shape(2) >= 4 && draw_.below(4) == 0 ? 2 : 1};
  options.groups = draw_.below(6) == 0 ? in : 1;
  const std::int64_t out = options.groups > 1 ? in : kChannels[draw_.below(4)];
  const Shape weight{out, in / options.groups, kernel, kernel};
  std::vector<std::size_t> parameters{parameter(weight, scale_of(weight))};
  if (draw_.coin()) parameters.push_back(parameter({out}, 0.5));
  const bool twice = out == in && options.stride[0] == 1 && draw_.coin();
  return {parameters, [options, twice](const Tensor& x, const Tensors& p, Tensors&) {
            const Tensor bias = p.size() > 1 ? p[1] : Tensor();
            const Tensor y = conv(x, p[0], bias, options);
            return twice ? conv(tanh(y), p[0], bias, options) : y;
          }};
}

RandomLayer NetDrawer::norm() {
  const std::int64_t kind = draw_.below(4);
  const std::int64_t size = kind == 1 ? x_.shape(-1) : x_.shape(1);
  const std::vector<std::size_t> parameters{parameter({size}, 0.3, 1.0), parameter({size}, 0.3)};
  if (kind == 0)
    return {parameters, [](const Tensor& x, const Tensors& p, Tensors&) {
              return group_norm(x, p[0], p[1], 1, 1e-2);
            }};
  if (kind == 1)
    return {parameters, [](const Tensor& x, const Tensors& p, Tensors&) {
              return layer_norm(x, p[0], p[1], 1e-2);
            }};
  return {parameters, [](const Tensor& x, const Tensors& p, Tensors& statistics) {
            const BatchNormResult result = batch_norm(x, p[0], p[1], 1e-2);
            statistics.insert(statistics.end(), {result.mean, result.var});
            return result.y;
          }};
}

RandomLayer NetDrawer::activation() {
  switch (draw_.below(6)) {
    case 0: return plain([](const Tensor& x) { return tanh(x); });
    case 1: return plain([](const Tensor& x) { return gelu(x); });
    case 2: return plain([](const Tensor& x) { return sigmoid(x); });
    default: return plain([](const Tensor& x) { return relu(x); });
  }
}

RandomLayer NetDrawer::pool() {
  if (x_.shape(2) < 2) return activation();
  if (draw_.coin()) return plain([](const Tensor& x) { return avg_pool(x, {.kernel = {2}}); });
  return plain([](const Tensor& x) { return max_pool(x, {.kernel = {2}}); });
}

// A block around which the input goes on.
RandomLayer NetDrawer::join() {
  const Shape weight{x_.shape(1), x_.shape(1), 3, 3};
  const std::vector<std::size_t> parameters{parameter(weight, scale_of(weight)),
                                            parameter(weight, scale_of(weight))};
  const bool concats = draw_.coin();
  return {parameters, [concats](const Tensor& x, const Tensors& p, Tensors&) {
            const Tensor y = relu(conv(x, p[0], {}, {.padding = {1}}));
            const Tensor z = conv(y, p[1], {}, {.padding = {1}});
            return concats ? concat({x, z}, 1) : relu(x + z);
          }};
}

RandomLayer NetDrawer::dense_layer(std::int64_t outputs) {
  const Shape weight{outputs, x_.numel() / x_.shape(0)};
  const std::vector<std::size_t> parameters{parameter(weight, scale_of(weight)),
                                            parameter({outputs}, 0.5)};
  return {parameters,
          [](const Tensor& x, const Tensors& p, Tensors&) { return dense(x, p[0], p[1]); }};
}

}  // namespace lockstep::testing
