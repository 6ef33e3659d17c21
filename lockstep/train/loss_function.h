// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/nn/block.h"
#include "lockstep/nn/loss.h"

namespace lockstep::train {

using Tensors = std::vector<Tensor>;

namespace detail {

template <class F, class... A>
concept Gives = std::is_invocable_r_v<Tensor, F&, const A&...>;
// One to four tensors: the outputs, then the labels.
template <class F>
concept LossOfTensors = Gives<F, Tensor, Tensor> || Gives<F, Tensor> ||
    Gives<F, Tensor, Tensor, Tensor> || Gives<F, Tensor, Tensor, Tensor, Tensor>;
template <class F>
concept LossOfLists = !LossOfTensors<F> && Gives<F, Tensors, Tensors>;

// The outputs, then the labels. Throws InvalidArgument when they are not `count`.
Tensors spread(const std::string& loss, std::size_t count, const Tensors& outputs,
               const Tensors& labels);

}  // namespace detail

// Losses of a batch: one for each sample, or their mean. It is made of
//
// - nn::L2Loss(), a loss of nn/loss.h: the first output and the label; a second label weighs;
// - [](const Tensor& output, const Tensor& label): the same, or two outputs without a label;
// - a function of one, three or four tensors: the outputs, then the labels;
// - [](const Tensors& outputs, const Tensors& labels): any number of them;
// - std::make_shared<Uncertainty>(), a Block: called with the outputs and then the labels; its
//   parameters learn.
//
// A loss of nn/loss.h also tells what counts as right; of any other nothing is known, and there is
// no accuracy unless `classes` is given, a function of the same.
class LossFunction {
 public:
  using Function = std::function<Tensor(const Tensors& outputs, const Tensors& labels)>;
  using ClassFunction = std::function<nn::Classes(const Tensors& outputs, const Tensors& labels)>;

  LossFunction() = default;
  template <class F>
  requires(!std::same_as<F, LossFunction> && (detail::LossOfTensors<F> || detail::LossOfLists<F>))
      LossFunction(F loss) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::derived_from<F, nn::LossBase>) name_ = loss.name();
    if constexpr (std::derived_from<F, nn::Loss>)
      classes_ = [loss](const Tensors& outputs, const Tensors& labels) {
        return loss.classes(outputs.at(0), labels.at(0));
      };
    set(std::move(loss));
  }
  template <std::derived_from<nn::Block> B>
  LossFunction(std::shared_ptr<B> loss) {  // NOLINT(google-explicit-constructor)
    set_block(std::move(loss));
  }
  template <class F, class C>
  LossFunction(F loss, C classes) : LossFunction(std::move(loss)) {
    set_classes(std::move(classes));
  }

  explicit operator bool() const { return static_cast<bool>(function_); }
  // Throws InvalidArgument when outputs or labels are not what it takes.
  Tensor operator()(const Tensors& outputs, const Tensors& labels) const;
  Tensor operator()(const Tensor& output, const Tensor& label) const {
    return (*this)(Tensors{output}, Tensors{label});
  }
  // Over the batch: a float without axes.
  Tensor mean(const Tensors& outputs, const Tensors& labels) const;
  // int64, both of one shape; undefined where there are none. Throws InvalidArgument when the
  // shapes differ.
  nn::Classes classes(const Tensors& outputs, const Tensors& labels) const;
  LossFunction without_classes() const;
  // Whether it is of one output and one label: of a net with several outputs it takes the first.
  bool takes_first_output() const;
  // "L2Loss", a block's description; "loss" for a plain function.
  const std::string& name() const { return name_; }
  // Null where the loss is no block.
  const nn::BlockPtr& block() const { return block_; }

 private:
  template <class F>
  void set(F loss) {
    using detail::Gives;
    if constexpr (std::derived_from<F, nn::Loss>)
      set_loss([loss](const Tensor& y, const Tensor& t, const Tensor& w) { return loss(y, t, w); });
    else if constexpr (Gives<F, Tensor, Tensor>)
      set_spread(2, [loss](const Tensors& all) mutable { return loss(all[0], all[1]); });
    else if constexpr (Gives<F, Tensor>)
      set_spread(1, [loss](const Tensors& all) mutable { return loss(all[0]); });
    else if constexpr (Gives<F, Tensor, Tensor, Tensor>)
      set_spread(3, [loss](const Tensors& all) mutable { return loss(all[0], all[1], all[2]); });
    else if constexpr (Gives<F, Tensor, Tensor, Tensor, Tensor>)
      set_spread(
          4, [loss](const Tensors& all) mutable { return loss(all[0], all[1], all[2], all[3]); });
    else
      function_ = std::move(loss);
  }
  template <class C>
  void set_classes(C classes) {
    if constexpr (std::is_invocable_r_v<nn::Classes, C&, const Tensor&, const Tensor&>)
      classes_ = [classes](const Tensors& outputs, const Tensors& labels) mutable {
        return classes(outputs.at(0), labels.at(0));
      };
    else
      classes_ = std::move(classes);
  }
  void set_loss(std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)> loss);
  void set_spread(std::size_t count, std::function<Tensor(const Tensors&)> loss);
  void set_block(nn::BlockPtr block);

  std::string name_ = "loss";
  nn::BlockPtr block_;
  Function function_;
  ClassFunction classes_;
};

// What is trained: the net's parameters, then those of a loss that is a block, as "loss.scale".
// Throws InvalidArgument when the net uses such names itself.
std::vector<nn::NamedParameter> trained_parameters(const nn::Block& net, const LossFunction& loss);

// Contents by those names. Throws as nn::set_parameters does.
void set_trained_parameters(const nn::Block& net, const LossFunction& loss,
                            const std::vector<std::pair<std::string, Tensor>>& tensors,
                            const std::string& place);

// Shapes that the net or the loss do not know yet, told by tracing both.
void complete_shapes(nn::Block& net, const LossFunction& loss,
                     const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& labels);

}  // namespace lockstep::train
