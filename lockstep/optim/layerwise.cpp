// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/detail/options.h"
#include "lockstep/optim/detail/sweep.h"
#include "lockstep/optim/optimizers.h"

// Rules whose rate for a parameter depends on its norms: LARS (You, Gitman, Ginsburg 2017) and LAMB
// (You et al. 2019).
namespace lockstep::optim {
namespace rules {
namespace {

struct Lars {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum;
  void step(float& w, float g, float& buffer) const {
    buffer = momentum * buffer + rate * gradient(g, w);
    w -= buffer;
  }
  float direction(float, float g, float&) const { return gradient.clipped(g); }
};

// The moments advance when the direction is measured; the step only reads them.
struct Lamb {
  static constexpr int kSlots = 2;
  Gradient gradient;  // without decay: that is in the direction
  Moments moments;
  float rate, mean_divisor, square_divisor, epsilon, decay;
  float towards(float w, float mean, float square) const {
    return (mean / mean_divisor) / (std::sqrt(square) / square_divisor + epsilon) + decay * w;
  }
  void step(float& w, float, float& mean, float& square) const {
    w -= rate * towards(w, mean, square);
  }
  float direction(float w, float g, float& mean, float& square) const {
    moments.advance(gradient.clipped(g), mean, square);
    return towards(w, mean, square);
  }
};

}  // namespace
}  // namespace rules

template <class To>
void list_arguments(To& to, LarsOptions& options) {
  to.take_common(options).take("momentum", options.momentum).take("eta", options.eta);
  to.take("epsilon", options.epsilon);
}

template <class To>
void list_arguments(To& to, LambOptions& options) {
  to.take_common(options).take_moments(options);
  to.take("lower_bound", options.lower_bound).take("upper_bound", options.upper_bound);
  to.take("bias_correction", options.bias_correction);
}

namespace {

class LarsRule final : public Optimizer {
 public:
  explicit LarsRule(const LarsOptions& options)
      : Optimizer(common_options("lars", options)), own_(options) {
    const OptionChecks check{"lars"};
    check.in_unit("momentum", own_.momentum);
    check.positive("eta", own_.eta);
    check.not_negative("epsilon", own_.epsilon);
  }
  std::string_view name() const override { return "lars"; }
  int slots() const override { return 1; }
  bool measures() const override { return true; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("momentum={}, eta={}, epsilon={}", own_.momentum, own_.eta, own_.epsilon);
  }

  PieceNorms measure(const UpdateContext& context, const Piece& piece) const override {
    return optim::measure(rule(context), piece);
  }
  void update(const UpdateContext& context, const Piece& piece) const override {
    sweep(rule(context), piece);
  }

 private:
  double trust(const UpdateContext& context) const {
    const double weight = context.weight_norm;
    const double gradient = context.direction_norm;
    if (weight == 0.0 || gradient == 0.0) return 1.0;
    return own_.eta * weight / (gradient + context.weight_decay * weight + own_.epsilon);
  }

  rules::Lars rule(const UpdateContext& context) const {
    return {.gradient = gradient_of(context),
            .rate = single(context.learning_rate * trust(context)),
            .momentum = single(own_.momentum)};
  }

  LarsOptions own_;
};

class LambRule final : public Optimizer {
 public:
  explicit LambRule(const LambOptions& options)
      : Optimizer(common_options("lamb", options)), own_(options) {
    const OptionChecks check{"lamb"};
    check.in_unit("beta1", own_.beta1);
    check.in_unit("beta2", own_.beta2);
    check.positive("epsilon", own_.epsilon);
    check.not_negative("lower_bound", own_.lower_bound);
    check.not_negative("upper_bound", own_.upper_bound);
  }
  std::string_view name() const override { return "lamb"; }
  int slots() const override { return 2; }
  bool measures() const override { return true; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("beta1={}, beta2={}, epsilon={}, bounds=[{}, {}], bias_correction={}",
                       own_.beta1, own_.beta2, own_.epsilon, own_.lower_bound, own_.upper_bound,
                       own_.bias_correction);
  }

  PieceNorms measure(const UpdateContext& context, const Piece& piece) const override {
    return optim::measure(rule(context), piece);
  }
  void update(const UpdateContext& context, const Piece& piece) const override {
    sweep(rule(context), piece);
  }

 private:
  double trust(const UpdateContext& context) const {
    double weight = std::max(context.weight_norm, own_.lower_bound);
    if (own_.upper_bound > 0.0) weight = std::min(weight, own_.upper_bound);
    if (weight == 0.0 || context.direction_norm == 0.0) return 1.0;
    return weight / context.direction_norm;
  }

  double divisor(double beta, std::int64_t step) const {
    return own_.bias_correction ? correction(beta, step) : 1.0;
  }

  rules::Lamb rule(const UpdateContext& context) const {
    return {.gradient = gradient_of(context, 0.0),
            .moments = moments_of(own_.beta1, own_.beta2),
            .rate = single(context.learning_rate * trust(context)),
            .mean_divisor = single(divisor(own_.beta1, context.step)),
            .square_divisor = single(std::sqrt(divisor(own_.beta2, context.step))),
            .epsilon = single(own_.epsilon),
            .decay = single(context.weight_decay)};
  }

  LambOptions own_;
};

}  // namespace

OptimizerPtr lars(const LarsOptions& options) { return std::make_shared<LarsRule>(options); }
OptimizerPtr lamb(const LambOptions& options) { return std::make_shared<LambRule>(options); }

template <>
OptimizerPtr make_rule<"lars">(Arguments& arguments) {
  LarsOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return lars(options);
}

template <>
OptimizerPtr make_rule<"lamb">(Arguments& arguments) {
  LambOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return lamb(options);
}

}  // namespace lockstep::optim
