// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/activation.h"

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep::nn {
namespace {

struct Named {
  const char* name;
  ActivationFunction function;
};

Tensor identity(const Tensor& x) { return x; }
Tensor softsign(const Tensor& x) { return x / (lockstep::abs(x) + 1.0); }

constexpr std::array kActivations{
    Named{"relu", lockstep::relu},
    Named{"sigmoid", lockstep::sigmoid},
    Named{"hard_sigmoid", [](const Tensor& x) { return lockstep::hard_sigmoid(x); }},
    Named{"tanh", lockstep::tanh},
    Named{"softrelu", lockstep::softplus},
    Named{"softsign", softsign},
    Named{"gelu", [](const Tensor& x) { return lockstep::gelu(x); }},
    Named{"gelu_tanh", [](const Tensor& x) { return lockstep::gelu(x, true); }},
    Named{"silu", lockstep::silu},
    Named{"swish", lockstep::silu},
    Named{"leaky_relu", [](const Tensor& x) { return lockstep::leaky_relu(x); }},
    Named{"elu", [](const Tensor& x) { return lockstep::elu(x); }},
    Named{"selu", lockstep::selu}};

}  // namespace

ActivationFunction find_activation(const char* layer, const std::string& name) {
  if (name.empty()) return identity;
  std::string known;
  for (const Named& entry : kActivations) {
    if (name == entry.name) return entry.function;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw InvalidArgument("{}: activation is '{}', expected one of: {}", layer, name, known);
}

Activation::Activation(std::string name)
    : name_(std::move(name)), function_(find_activation("activation", name_)) {}

Tensor Activation::forward(const Tensor& x) { return function_(x); }
std::string Activation::description() const { return fmt::format("Activation({})", name_); }

Tensor LeakyReLU::forward(const Tensor& x) { return lockstep::leaky_relu(x, slope_); }
std::string LeakyReLU::description() const { return fmt::format("LeakyReLU({})", slope_); }

Tensor ELU::forward(const Tensor& x) { return lockstep::elu(x, alpha_); }
std::string ELU::description() const { return fmt::format("ELU({})", alpha_); }

PReLU::PReLU(std::int64_t channels, const Initializer& init)
    : alpha_(add_parameter("alpha", {channels}, {.init = init})) {}

Tensor PReLU::forward(const Tensor& x) {
  const std::int64_t channels = alpha_.shape()[0];
  if (channels == 1) return where(greater(x, 0.0), x, x * alpha_.data());
  if (x.rank() < 2 || x.shape(1) != channels)
    throw InvalidArgument("prelu: x has shape {}, expected {} channels on axis 1", x.shape().str(),
                          channels);
  Ints sizes(static_cast<std::size_t>(x.rank() - 1), 1);
  sizes[0] = channels;
  return where(greater(x, 0.0), x, x * reshape(alpha_.data(), sizes));
}

std::string PReLU::description() const { return fmt::format("PReLU({})", alpha_.shape()[0]); }

std::shared_ptr<Activation> activation(std::string name) {
  return std::make_shared<Activation>(std::move(name));
}
std::shared_ptr<Activation> relu() { return activation("relu"); }
std::shared_ptr<Activation> selu() { return activation("selu"); }
std::shared_ptr<Activation> gelu() { return activation("gelu"); }
std::shared_ptr<Activation> silu() { return activation("silu"); }
std::shared_ptr<LeakyReLU> leaky_relu(double slope) { return std::make_shared<LeakyReLU>(slope); }
std::shared_ptr<ELU> elu(double alpha) { return std::make_shared<ELU>(alpha); }
std::shared_ptr<PReLU> prelu(std::int64_t channels, const Initializer& init) {
  return std::make_shared<PReLU>(channels, init);
}

}  // namespace lockstep::nn
