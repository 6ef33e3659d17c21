// SPDX-License-Identifier: Apache-2.0
#include "tests/graph/random_graphs.h"

#include <algorithm>
#include <cmath>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/calls.h"

namespace lockstep::testing {

double largest_of(const Tensor& tensor) {
  double largest = 0.0;
  for (double x : tensor.to_vector<double>())
    largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : HUGE_VAL;
  return largest;
}

namespace {

constexpr std::int64_t kLargestValue = 4096;  // elements
constexpr double kLargestElement = 50.0;
constexpr double kMove = 1e-4;  // of the largest element; rounding is a hundredth of it

bool is_near(const Tensors& a, const Tensors& b, double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = largest_of(subtract(cast(a[i], DType::float64), b[i]));
    if (!(off <= tolerance * std::max(largest_of(b[i]), 1e-2))) return false;
  }
  return true;
}

bool is_usable(const Tensor& value) {
  return value.numel() > 0 && value.numel() <= kLargestValue && value.rank() <= 4 &&
         largest_of(value) <= kLargestElement;
}

Tensors gradients_of(const RandomStep& step, const Tensors& arguments, const Tensors& weights) {
  Tensors leaves;
  for (const Tensor& argument : arguments) {
    leaves.push_back(argument.detach());
    autograd::attach_grad(leaves.back());
  }
  const autograd::RecordScope record;
  const Tensors results = step.body(leaves);
  Tensor head = Tensor::scalar(0.0);
  for (std::size_t i = 0; i < results.size(); ++i)
    head = add(head, sum(multiply(results[i], weights[i])));
  return autograd::requires_grad(head) ? autograd::grad({&head, 1}, leaves) : Tensors{};
}

RandomStep with_one(std::size_t x, std::function<Tensor(const Tensor&)> body) {
  return {{x}, [body](const Tensors& in) { return Tensors{body(in[0])}; }};
}

RandomStep with_two(std::size_t a, std::size_t b,
                    std::function<Tensor(const Tensor&, const Tensor&)> body) {
  return {{a, b}, [body](const Tensors& in) { return Tensors{body(in[0], in[1])}; }};
}

double fan_in(const Shape& weight) {
  return std::sqrt(static_cast<double>(weight.numel()) / static_cast<double>(weight[0]));
}

}  // namespace

Tensors RandomProgram::values(const Tensors& arguments) const {
  Tensors all;
  for (const RandomStep& step : steps) {
    if (step.input >= 0) {
      all.push_back(arguments[static_cast<std::size_t>(step.input)]);
      continue;
    }
    Tensors from;
    for (std::size_t id : step.from) from.push_back(all[id]);
    for (Tensor& result : step.body(from)) all.push_back(std::move(result));
  }
  return all;
}

Infos RandomProgram::input_infos() const {
  Infos infos;
  for (const Tensor& input : inputs) infos.push_back(input.info());
  return infos;
}

RandomProgram ProgramDrawer::draw(int steps, bool smooth) {
  program_ = {};
  values_.clear();
  const Shape starts[] = {{2, channels(), 6, 6}, {5, 6}, {6}, {1}, {}};
  input(random(starts[0]));
  for (int i = 0; i < 2; ++i) leaf(starts[below(5)]);
  for (int i = 0; i < steps; ++i) {
    bool added = false;
    for (int attempt = 0; attempt < 5 && !added; ++attempt) added = try_to_add(draw_step(smooth));
  }
  return std::move(program_);
}

Tensor ProgramDrawer::random(const Shape& shape, double scale) {
  return random_floats(shape, generator_(), -scale, scale);
}

std::int64_t ProgramDrawer::channels() {
  constexpr std::int64_t kChannels[] = {3, 8, 17, 20};
  return kChannels[below(4)];
}

std::size_t ProgramDrawer::leaf(const Shape& shape, double scale) {
  const Tensor value = random(shape, scale);
  if (below(3) > 0)
    input(value);
  else
    add({{}, [value](const Tensors&) { return Tensors{value}; }}, {value});
  return values_.size() - 1;
}

void ProgramDrawer::input(const Tensor& value) {
  RandomStep step;
  step.input = static_cast<std::ptrdiff_t>(program_.inputs.size());
  program_.inputs.push_back(value);
  add(std::move(step), {value});
}

std::size_t ProgramDrawer::any() {
  const std::size_t count = values_.size();
  return coin() ? index_below(count) : count - 1 - index_below(std::min<std::size_t>(count, 4));
}

std::size_t ProgramDrawer::any_of_rank(int rank) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i].rank() == rank) found.push_back(i);
  return found.empty() ? any() : found[index_below(found.size())];
}

std::size_t ProgramDrawer::image() {
  const std::size_t found = any_of_rank(4);
  return values_[found].rank() == 4 ? found : leaf({2, channels(), 6, 6});
}

RandomStep ProgramDrawer::draw_step(bool smooth) {
  switch (below(smooth ? 13 : 16)) {
    case 0: return unary();
    case 1: return unary();
    case 2: return binary();
    case 3: return binary();
    case 4: return window();
    case 5: return window();
    case 6: return join();
    case 7: return reduction();
    case 8: return product();
    case 9: return convolution();
    case 10: return convolution();
    case 11: return spatial();
    case 12: return norm();
    case 13: return jump();
    case 14: return jump();
    default: return image_jump();
  }
}

RandomStep ProgramDrawer::unary() {
  const std::size_t x = any();
  switch (below(10)) {
    case 0: return with_one(x, [](const Tensor& t) { return tanh(t); });
    case 1: return with_one(x, [](const Tensor& t) { return t * 0.5 + 1.0; });
    case 2: return with_one(x, [](const Tensor& t) { return sigmoid(t); });
    case 3: return with_one(x, [](const Tensor& t) { return exp(tanh(t)); });
    case 4: return with_one(x, [](const Tensor& t) { return sqrt(square(t) + 0.5); });
    case 5: return with_one(x, [](const Tensor& t) { return gelu(t); });
    case 6: return with_one(x, [](const Tensor& t) { return 1.0 / (square(t) + 1.0); });
    case 7: return with_one(x, [](const Tensor& t) { return cos(t) - t; });
    case 8: return with_one(x, [](const Tensor& t) { return log1p(square(t)) * t; });
    default: return with_one(x, [](const Tensor& t) { return softplus(t) - 0.5; });
  }
}

RandomStep ProgramDrawer::binary() {
  const std::size_t a = any();
  // One element, one for each channel, or whatever there is.
  std::size_t b = any();
  if (coin()) b = leaf(coin() ? Shape{1} : Shape{});
  if (values_[a].rank() == 4 && coin()) b = leaf({values_[a].shape(1), 1, 1});
  switch (below(5)) {
    case 0: return with_two(a, b, [](const Tensor& x, const Tensor& y) { return x + y; });
    case 1: return with_two(a, b, [](const Tensor& x, const Tensor& y) { return x * y; });
    case 2: return with_two(a, b, [](const Tensor& x, const Tensor& y) { return y - x; });
    case 3:
      return with_two(a, b, [](const Tensor& x, const Tensor& y) { return x / (exp(tanh(y))); });
    default:
      return with_two(a, b, [](const Tensor& x, const Tensor& y) { return tanh(x + y) * y; });
  }
}

RandomStep ProgramDrawer::window() {
  const std::size_t x = any();
  const auto axis = static_cast<int>(below(4));
  switch (below(9)) {
    case 0: return with_one(x, [](const Tensor& t) { return transpose(t); });
    case 1: return with_one(x, [](const Tensor& t) { return flatten(t, 1); });
    case 2: return with_one(x, [axis](const Tensor& t) { return flip(t, {axis}); });
    case 3: return with_one(x, [](const Tensor& t) { return slice(t, {1}, {3}); });
    case 4: return with_one(x, [axis](const Tensor& t) { return slice_axis(t, axis, 1, 5); });
    case 5: return with_one(x, [](const Tensor& t) { return slice(t, {0, -1}, {5, 0}, {2, -2}); });
    case 6: return with_one(x, [](const Tensor& t) { return reshape(t, {-1}); });
    case 7: return with_one(x, [](const Tensor& t) { return expand_dims(t, 0); });
    default:
      return with_one(x, [](const Tensor& t) {
        Shape shape = t.shape();
        shape.insert(0, 3);
        return expand(t, shape);
      });
  }
}

RandomStep ProgramDrawer::join() {
  const std::size_t x = any();
  const auto axis = static_cast<int>(below(2));
  switch (below(5)) {
    case 0: return with_one(x, [axis](const Tensor& t) { return concat({t, tanh(t), t}, axis); });
    case 1:
      return with_two(x, any(), [axis](const Tensor& a, const Tensor& b) {
        return concat({a, b}, axis);
      });
    case 2: return {{x}, [](const Tensors& in) { return split(in[0], 2, -1); }};
    case 3: return with_one(x, [](const Tensor& t) { return tile(t, {2}); });
    default:
      return with_one(x, [](const Tensor& t) {
        return pad(t, Ints(static_cast<std::size_t>(2 * t.rank()), 1), 0.5);
      });
  }
}

RandomStep ProgramDrawer::reduction() {
  const std::size_t x = any();
  const bool keep = coin();
  switch (below(7)) {
    case 0: return with_one(x, [keep](const Tensor& t) { return sum(t, {-1}, keep); });
    case 1: return with_one(x, [keep](const Tensor& t) { return mean(t, {0}, keep); });
    case 2: return with_one(x, [](const Tensor& t) { return mean(t); });
    case 3: return with_one(x, [](const Tensor& t) { return t - sum_to(t, {1}) * 0.01; });
    case 4: return with_one(x, [keep](const Tensor& t) { return logsumexp(t, {-1}, keep); });
    case 5: return with_one(x, [](const Tensor& t) { return cumsum(t); });
    default: return with_one(x, [keep](const Tensor& t) { return mean(t, {0, 2, 3}, keep); });
  }
}

RandomStep ProgramDrawer::product() {
  const std::size_t x = coin() ? any_of_rank(2) : any();
  const Tensor& value = values_[x];
  if (value.rank() == 0) return with_one(x, [](const Tensor& t) { return square(t); });
  if (below(3) == 0)
    return with_one(x, [](const Tensor& t) { return matmul(t, t, false, true) * 0.1; });
  if (coin()) {
    const Shape weight{value.shape(-1), 7};
    return with_two(x, leaf(weight, 0.5),
                    [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  }
  const Shape weight{6, value.numel() / value.shape(0)};
  const std::size_t w = leaf(weight, 1.0 / fan_in(weight));
  if (coin()) return with_two(x, w, [](const Tensor& a, const Tensor& b) { return dense(a, b); });
  return {{x, w, leaf({6})}, [](const Tensors& in) { return Tensors{dense(in[0], in[1], in[2])}; }};
}

RandomStep ProgramDrawer::convolution() {
  const std::size_t x = image();
  const std::int64_t in_channels = values_[x].shape(1);
  if (below(6) == 0) {
    const std::size_t w = leaf({in_channels, 5, 2, 2}, 0.2);
    return with_two(x, w, [](const Tensor& a, const Tensor& b) { return conv_transpose(a, b); });
  }
  ConvOptions options;
  options.stride = {1 + below(2)};
  options.padding = {below(2)};
  options.groups = below(5) == 0 ? in_channels : 1;
  const std::int64_t kernel = coin() ? 3 : 1;
  const std::int64_t out = options.groups > 1 ? in_channels : channels();
  const Shape weight{out, in_channels / options.groups, kernel, kernel};
  const std::size_t w = leaf(weight, 1.5 / fan_in(weight));
  if (coin())
    return with_two(
        x, w, [options](const Tensor& a, const Tensor& b) { return conv(a, b, {}, options); });
  return {{x, w, leaf({out})},
          [options](const Tensors& in) { return Tensors{conv(in[0], in[1], in[2], options)}; }};
}

RandomStep ProgramDrawer::spatial() {
  const std::size_t x = image();
  switch (below(5)) {
    case 0: return with_one(x, [](const Tensor& t) { return avg_pool(t, {.kernel = {2, 2}}); });
    case 1:
      return with_one(x, [](const Tensor& t) {
        return avg_pool(t, {.kernel = {3}, .stride = {1}, .padding = {1}});
      });
    case 2: return with_one(x, [](const Tensor& t) { return global_avg_pool(t); });
    case 3: return with_one(x, [](const Tensor& t) { return t + global_avg_pool(t); });
    default: return with_one(x, [](const Tensor& t) { return transpose(t, {0, 2, 3, 1}); });
  }
}

RandomStep ProgramDrawer::norm() {
  const std::size_t x = coin() ? image() : any();
  const Tensor& value = values_[x];
  if (value.rank() == 0) return with_one(x, [](const Tensor& t) { return t + t; });
  const std::int64_t kind = below(4);
  if (kind == 0) return with_one(x, [](const Tensor& t) { return softmax(t); });
  if (kind == 1) return with_one(x, [](const Tensor& t) { return log_softmax(t, 0); });
  const std::int64_t size = kind == 2 || value.rank() < 2 ? value.shape(-1) : value.shape(1);
  const std::size_t gamma = leaf({size});
  const std::size_t beta = leaf({size});
  if (kind == 2)
    return {{x, gamma, beta},
            [](const Tensors& in) { return Tensors{layer_norm(in[0], in[1], in[2])}; }};
  return {{x, gamma, beta}, [](const Tensors& in) {
            const BatchNormResult result = batch_norm(in[0], in[1], in[2]);
            return Tensors{result.y, result.mean, result.var};
          }};
}

RandomStep ProgramDrawer::jump() {
  const std::size_t x = any();
  switch (below(10)) {
    case 0: return with_one(x, [](const Tensor& t) { return relu(t); });
    case 1: return with_one(x, [](const Tensor& t) { return clip(t, -0.3, 0.3); });
    case 2: return with_one(x, [](const Tensor& t) { return where(greater(t, 0.0), t, t * 2.0); });
    case 3:
      return with_two(x, any(), [](const Tensor& a, const Tensor& b) {
        return cast(less(a, b), DType::float32);
      });
    case 4:
      return with_two(x, any(), [](const Tensor& a, const Tensor& b) {
        return cast(logical_not(less(expand_dims(exp(tanh(a)), -1), b)), DType::float32) * b;
      });
    case 5: return with_one(x, [](const Tensor& t) { return max(t, {-1}); });
    case 6:
      return {{x}, [](const Tensors& in) {
                const auto [values, places] = topk(in[0], 2);
                return Tensors{values, cast(places, DType::float32)};
              }};
    case 7:
      return with_two(x, any(), [](const Tensor& a, const Tensor& b) { return maximum(a, b); });
    case 8: return with_one(x, [](const Tensor& t) { return sort(t); });
    default: return with_one(x, [](const Tensor& t) { return maximum(t, 0.25); });
  }
}

RandomStep ProgramDrawer::image_jump() {
  const std::size_t x = image();
  switch (below(4)) {
    case 0: return with_one(x, [](const Tensor& t) { return max_pool(t, {.kernel = {2, 2}}); });
    case 1: return with_one(x, [](const Tensor& t) { return max_pool(relu(t), {.kernel = {2}}); });
    case 2: return with_one(x, [](const Tensor& t) { return global_max_pool(t); });
    default: {
      const Shape size{values_[x].shape(1)};
      return {{x, leaf(size), leaf(size)},
              [](const Tensors& in) { return Tensors{relu(batch_norm(in[0], in[1], in[2]).y)}; }};
    }
  }
}

bool ProgramDrawer::try_to_add(RandomStep step) {
  Tensors arguments;
  for (std::size_t id : step.from) arguments.push_back(values_[id]);
  try {
    Tensors results = step.body(arguments);
    if (!std::all_of(results.begin(), results.end(), is_usable) ||
        !is_settled(step, arguments, results))
      return false;
    add(std::move(step), std::move(results));
    return true;
  } catch (const Error&) {
    return false;  // shapes that do not fit
  }
}

void ProgramDrawer::add(RandomStep step, Tensors results) {
  program_.steps.push_back(std::move(step));
  for (Tensor& result : results) values_.push_back(std::move(result));
}

bool ProgramDrawer::is_settled(const RandomStep& step, const Tensors& arguments,
                               const Tensors& results) {
  Tensors weights;
  for (const Tensor& result : results) weights.push_back(random(result.shape()));
  const Tensors gradients = gradients_of(step, arguments, weights);
  for (int draw = 0; draw < 2; ++draw) {
    Tensors moves;
    for (const Tensor& argument : arguments)
      moves.push_back(random(argument.shape(), kMove * largest_of(argument)));
    for (double sign : {1.0, -1.0}) {
      Tensors moved;
      for (std::size_t i = 0; i < arguments.size(); ++i)
        moved.push_back(arguments[i] + sign * moves[i]);
      if (!is_near(step.body(moved), results, 0.01)) return false;
      if (!is_near(gradients_of(step, moved, weights), gradients, 0.03)) return false;
    }
  }
  return true;
}

}  // namespace lockstep::testing
