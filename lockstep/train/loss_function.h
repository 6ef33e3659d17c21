// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/nn/loss.h"

namespace lockstep::train {

// Losses of a batch from the net's output and the label: one for each sample, or their mean. A loss
// of nn/loss.h also tells what counts as right; of any other function nothing is known, and there
// is no accuracy unless `classes` is given.
class LossFunction {
 public:
  using Function = std::function<Tensor(const Tensor& output, const Tensor& label)>;
  using ClassFunction = std::function<nn::Classes(const Tensor& output, const Tensor& label)>;

  LossFunction() = default;
  LossFunction(Function function, ClassFunction classes)
      : function_(std::move(function)), classes_(std::move(classes)) {}
  template <class F>
  requires(!std::same_as<F, LossFunction> &&
           std::is_invocable_r_v<Tensor, F&, const Tensor&, const Tensor&>) LossFunction(F loss)
      : function_(loss) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::derived_from<F, nn::Loss>)
      classes_ = [loss](const Tensor& output, const Tensor& label) {
        return loss.classes(output, label);
      };
  }

  explicit operator bool() const { return static_cast<bool>(function_); }
  Tensor operator()(const Tensor& output, const Tensor& label) const {
    return function_(output, label);
  }
  // int64, both of one shape; undefined where there are none. Throws InvalidArgument when the
  // shapes differ.
  nn::Classes classes(const Tensor& output, const Tensor& label) const;
  LossFunction without_classes() const { return {function_, {}}; }

 private:
  Function function_;
  ClassFunction classes_;
};

}  // namespace lockstep::train
