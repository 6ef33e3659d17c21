// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/loss_function.h"

#include <algorithm>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/nn/complete_shapes.h"
#include "lockstep/nn/set_parameters.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::train {
namespace {

constexpr const char* kLossPrefix = "loss.";

std::string count_of(std::size_t count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

[[noreturn]] void refuse(const std::string& loss, const std::string& takes, const Tensors& outputs,
                         const Tensors& labels) {
  throw InvalidArgument("{}: takes {}; the net gives {}, and the sample has {}", loss, takes,
                        count_of(outputs.size(), "output"), count_of(labels.size(), "label"));
}

// Of one output and one label, or of two outputs; a second label may be a weight.
struct SimpleLoss {
  std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> loss;
  std::string name;
  bool takes_weight = false;

  Tensor operator()(const Tensors& outputs, const Tensors& labels) const {
    if (labels.empty() && outputs.size() == 2 && !takes_weight)
      return loss(outputs[0], outputs[1], {});
    if (outputs.empty() || labels.empty() || labels.size() > (takes_weight ? 2U : 1U))
      refuse(name,
             takes_weight ? "1 output and 1 label, or 2 where the second is each sample's weight"
                          : "1 output and 1 label, or 2 outputs",
             outputs, labels);
    return loss(outputs[0], labels[0], labels.size() == 2 ? labels[1] : Tensor());
  }
};

Tensors joined(const Tensors& outputs, const Tensors& labels) {
  Tensors all = outputs;
  all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

// One number, or as many for each sample. Samples are along the first axis, or the second of
// sequences that have time first.
bool counts_samples(const Tensor& losses, const Tensors& outputs, const Tensors& labels) {
  if (losses.numel() == 1) return true;
  const auto fits = [&](std::int64_t samples) {
    return samples == 0 ? losses.numel() == 0 : losses.numel() > 0 && losses.numel() % samples == 0;
  };
  const auto fits_any = [&](const Tensors& tensors, int time_first_rank) {
    return std::ranges::any_of(tensors, [&](const Tensor& x) {
      if (x.rank() > 0 && fits(x.shape(0))) return true;
      return x.rank() >= time_first_rank && x.shape(1) > 1 && fits(x.shape(1));
    });
  };
  return fits_any(outputs, 3) || fits_any(labels, 2);
}

std::string infos_text(const Tensors& all) {
  std::string text;
  for (const Tensor& x : all) text += (text.empty() ? "" : ", ") + x.info().str();
  return text;
}

}  // namespace

Tensors detail::spread(const std::string& loss, std::size_t count, const Tensors& outputs,
                       const Tensors& labels) {
  if (outputs.size() + labels.size() != count)
    refuse(loss, count_of(count, "tensor") + ", the outputs and then the labels", outputs, labels);
  return joined(outputs, labels);
}

void LossFunction::set_loss(
    std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> loss) {
  function_ = SimpleLoss{std::move(loss), name_, true};
}

void LossFunction::set_spread(std::size_t count, std::function<Tensor(const Tensors&)> loss) {
  if (count == 2) {
    const auto of_two = [loss = std::move(loss)](const Tensor& a, const Tensor& b, const Tensor&) {
      return loss({a, b});
    };
    function_ = SimpleLoss{of_two, name_, false};
    return;
  }
  function_ = [=, loss = std::move(loss), name = name_](const Tensors& outputs,
                                                        const Tensors& labels) {
    return loss(detail::spread(name, count, outputs, labels));
  };
}

void LossFunction::set_block(nn::BlockPtr block) {
  if (block == nullptr) return;
  name_ = block->description();
  block_ = std::move(block);
  function_ = [loss = block_, name = name_](const Tensors& outputs, const Tensors& labels) {
    const Tensors results = (*loss)(joined(outputs, labels));
    if (results.size() != 1)
      throw InvalidArgument("{}: gives {}, a loss is one", name,
                            count_of(results.size(), "output"));
    return results[0];
  };
}

bool LossFunction::takes_first_output() const { return function_.target<SimpleLoss>() != nullptr; }

Tensor LossFunction::operator()(const Tensors& outputs, const Tensors& labels) const {
  Tensor losses = function_(outputs, labels);
  if (!losses.defined() || !is_floating(losses.dtype()))
    throw InvalidArgument("{}: gives {}, expected floats", name_,
                          losses.defined() ? losses.info().str() : "an undefined tensor");
  if (!counts_samples(losses, outputs, labels))
    throw InvalidArgument(
        "{}: gives {}, expected their mean, or as many for each sample; outputs and labels: {}",
        name_, losses.info().str(), infos_text(joined(outputs, labels)));
  return losses;
}

Tensor LossFunction::mean(const Tensors& outputs, const Tensors& labels) const {
  return lockstep::mean((*this)(outputs, labels));
}

nn::Classes LossFunction::classes(const Tensors& outputs, const Tensors& labels) const {
  if (!classes_) return {};
  const auto [predicted, expected, counted] = classes_(outputs, labels);
  if (!predicted.defined() || !expected.defined()) return {};
  if (predicted.numel() != expected.numel())
    throw InvalidArgument("accuracy: predicted classes have shape {}, the expected ones {}",
                          predicted.shape().str(), expected.shape().str());
  const Shape& shape = predicted.shape();
  const auto shaped = [&](const Tensor& x) {
    return x.shape() == shape ? x : reshape(x, Ints(shape.begin(), shape.end()));
  };
  return {cast(predicted, DType::int64), cast(shaped(expected), DType::int64),
          counted.defined() ? shaped(counted) : Tensor()};
}

LossFunction LossFunction::without_classes() const {
  LossFunction loss = *this;
  loss.classes_ = {};
  return loss;
}

std::vector<nn::NamedParameter> trained_parameters(const nn::Block& net, const LossFunction& loss) {
  std::vector<nn::NamedParameter> all = net.parameters();
  if (loss.block() == nullptr) return all;
  std::set<const void*> seen;
  for (const auto& [name, parameter] : all) {
    seen.insert(parameter.identity());
    if (name.starts_with(kLossPrefix))
      throw InvalidArgument(
          "train: the net has a parameter {}, and names that begin with {} are the loss's: give "
          "the net's child another name",
          name, kLossPrefix);
  }
  for (const auto& [name, parameter] : loss.block()->parameters())
    if (seen.insert(parameter.identity()).second) all.push_back({kLossPrefix + name, parameter});
  return all;
}

// What the net has too, by its name in the loss: it is trained, and kept, as the net's.
static std::vector<nn::NamedParameter> parameters_of_both(const nn::Block& net,
                                                          const nn::Block& loss) {
  std::set<const void*> of_net;
  for (const auto& [name, parameter] : net.parameters()) of_net.insert(parameter.identity());
  std::vector<nn::NamedParameter> both = loss.parameters();
  std::erase_if(both, [&](const nn::NamedParameter& named) {
    return !of_net.contains(named.parameter.identity());
  });
  return both;
}

void set_trained_parameters(const nn::Block& net, const LossFunction& loss,
                            const std::vector<std::pair<std::string, Tensor>>& tensors,
                            const std::string& place) {
  if (loss.block() == nullptr) {
    nn::set_parameters(net, tensors, place);
    return;
  }
  std::vector<std::pair<std::string, Tensor>> of_net, of_loss;
  const std::string prefix = kLossPrefix;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix))
      of_loss.emplace_back(name.substr(prefix.size()), tensor);
    else
      of_net.emplace_back(name, tensor);
  nn::set_parameters(net, of_net, place);
  for (const nn::NamedParameter& both : parameters_of_both(net, *loss.block()))
    of_loss.emplace_back(both.name, both.parameter.data());
  nn::set_parameters(*loss.block(), of_loss, place);
}

void complete_shapes(nn::Block& net, const LossFunction& loss,
                     const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& labels) {
  net.complete_shapes(inputs);
  if (loss.block() == nullptr) return;
  std::vector<TensorInfo> fields = inputs;
  fields.insert(fields.end(), labels.begin(), labels.end());
  const auto data = static_cast<std::ptrdiff_t>(inputs.size());
  const auto net_and_loss = [&](const Tensors& x) -> Tensors {
    return {loss(net(Tensors(x.begin(), x.begin() + data)), Tensors(x.begin() + data, x.end()))};
  };
  nn::complete_shapes(net_and_loss, fields);
}

}  // namespace lockstep::train
