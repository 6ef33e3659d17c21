// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/detail/options.h"
#include "lockstep/optim/detail/sweep.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {
namespace rules {
namespace {

struct AdaGrad {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, epsilon;
  void step(float& w, float g, float& sum) const {
    const float slope = gradient(g, w);
    sum += slope * slope;
    w -= rate * (slope / (std::sqrt(sum) + epsilon));
  }
};

struct AdaDelta {
  static constexpr int kSlots = 2;
  Gradient gradient;
  float rate, keep, take, epsilon;
  void step(float& w, float g, float& square, float& moved) const {
    const float slope = gradient(g, w);
    square = blended(keep, take, square, slope * slope);
    const float delta = std::sqrt(moved + epsilon) / std::sqrt(square + epsilon) * slope;
    moved = blended(keep, take, moved, delta * delta);
    w -= rate * delta;
  }
};

struct RmsProp {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum, keep, take, epsilon;
  float scaled(float slope, float& square) const {
    square = blended(keep, take, square, slope * slope);
    return slope / (std::sqrt(square) + epsilon);
  }
  void step(float& w, float g, float& square) const { w -= rate * scaled(gradient(g, w), square); }
};

struct RmsPropMomentum : RmsProp {
  static constexpr int kSlots = 2;
  void step(float& w, float g, float& square, float& buffer) const {
    buffer = momentum * buffer + scaled(gradient(g, w), square);
    w -= rate * buffer;
  }
};

// The variance is not let below zero, where rounding may take it.
struct CenteredRmsProp : RmsProp {
  static constexpr int kSlots = 2;
  float centered(float slope, float& square, float& mean) const {
    square = blended(keep, take, square, slope * slope);
    mean = blended(keep, take, mean, slope);
    return slope / (std::sqrt(larger(square - mean * mean, 0.0F)) + epsilon);
  }
  void step(float& w, float g, float& square, float& mean) const {
    w -= rate * centered(gradient(g, w), square, mean);
  }
};

struct CenteredRmsPropMomentum : CenteredRmsProp {
  static constexpr int kSlots = 3;
  void step(float& w, float g, float& square, float& mean, float& buffer) const {
    buffer = momentum * buffer + centered(gradient(g, w), square, mean);
    w -= rate * buffer;
  }
};

struct Ftrl {
  static constexpr int kSlots = 2;
  Gradient gradient;  // without decay: that is in the divisor
  float inverse_rate, lambda, beta, decay;
  void step(float& w, float g, float& z, float& square) const {
    const float slope = gradient.clipped(g);
    const float before = std::sqrt(square);
    square += slope * slope;
    const float root = std::sqrt(square);
    z += slope - (root - before) * inverse_rate * w;
    const float divisor = (beta + root) * inverse_rate + decay;
    // What is within lambda becomes zero.
    w = (clamped(z, lambda) - z) / divisor;
  }
};

}  // namespace
}  // namespace rules

template <class To>
void list_arguments(To& to, AdaGradOptions& options) {
  to.take_common(options).take("epsilon", options.epsilon);
}

template <class To>
void list_arguments(To& to, AdaDeltaOptions& options) {
  to.take_common(options).take("rho", options.rho).take("epsilon", options.epsilon);
}

template <class To>
void list_arguments(To& to, RmsPropOptions& options) {
  to.take_common(options).take("gamma1", options.rho).take("gamma2", options.momentum);
  to.take("epsilon", options.epsilon).take("centered", options.centered);
}

template <class To>
void list_arguments(To& to, FtrlOptions& options) {
  to.take_common(options).take("lamda1", options.lambda1).take("beta", options.beta);
}

namespace {

class AdaGradRule final : public Optimizer {
 public:
  explicit AdaGradRule(const AdaGradOptions& options)
      : Optimizer(common_options("adagrad", options)), own_(options) {
    OptionChecks{"adagrad"}.positive("epsilon", own_.epsilon);
  }
  std::string_view name() const override { return "adagrad"; }
  int slots() const override { return 1; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override { return fmt::format("epsilon={}", own_.epsilon); }

  void update(const UpdateContext& context, const Piece& piece) const override {
    sweep(rules::AdaGrad{.gradient = gradient_of(context),
                         .rate = single(context.learning_rate),
                         .epsilon = single(own_.epsilon)},
          piece);
  }

 private:
  AdaGradOptions own_;
};

class AdaDeltaRule final : public Optimizer {
 public:
  explicit AdaDeltaRule(const AdaDeltaOptions& options)
      : Optimizer(common_options("adadelta", options)), own_(options) {
    OptionChecks{"adadelta"}.in_unit("rho", own_.rho);
    OptionChecks{"adadelta"}.positive("epsilon", own_.epsilon);
  }
  std::string_view name() const override { return "adadelta"; }
  int slots() const override { return 2; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("rho={}, epsilon={}", own_.rho, own_.epsilon);
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    sweep(rules::AdaDelta{.gradient = gradient_of(context),
                          .rate = single(context.learning_rate),
                          .keep = single(own_.rho),
                          .take = single(1.0 - own_.rho),
                          .epsilon = single(own_.epsilon)},
          piece);
  }

 private:
  AdaDeltaOptions own_;
};

class RmsPropRule final : public Optimizer {
 public:
  explicit RmsPropRule(const RmsPropOptions& options)
      : Optimizer(common_options("rmsprop", options)), own_(options) {
    const OptionChecks check{"rmsprop"};
    check.in_unit("rho", own_.rho);
    check.in_unit("momentum", own_.momentum);
    check.positive("epsilon", own_.epsilon);
  }
  std::string_view name() const override { return "rmsprop"; }
  int slots() const override { return 1 + int{own_.centered} + int{has_momentum()}; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("rho={}, momentum={}, epsilon={}, centered={}", own_.rho, own_.momentum,
                       own_.epsilon, own_.centered);
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    const rules::RmsProp rule{.gradient = gradient_of(context),
                              .rate = single(context.learning_rate),
                              .momentum = single(own_.momentum),
                              .keep = single(own_.rho),
                              .take = single(1.0 - own_.rho),
                              .epsilon = single(own_.epsilon)};
    const rules::CenteredRmsProp centered{rule};
    if (own_.centered && has_momentum())
      return sweep(rules::CenteredRmsPropMomentum{centered}, piece);
    if (own_.centered) return sweep(centered, piece);
    if (has_momentum()) return sweep(rules::RmsPropMomentum{rule}, piece);
    sweep(rule, piece);
  }

 private:
  bool has_momentum() const { return own_.momentum > 0.0; }
  RmsPropOptions own_;
};

class FtrlRule final : public Optimizer {
 public:
  explicit FtrlRule(const FtrlOptions& options)
      : Optimizer(common_options("ftrl", options)), own_(options) {
    OptionChecks{"ftrl"}.not_negative("lambda1", own_.lambda1);
    OptionChecks{"ftrl"}.positive("beta", own_.beta);
  }
  std::string_view name() const override { return "ftrl"; }
  int slots() const override { return 2; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("lambda1={}, beta={}", own_.lambda1, own_.beta);
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    if (context.learning_rate == 0.0) return;
    sweep(rules::Ftrl{.gradient = gradient_of(context, 0.0),
                      .inverse_rate = single(1.0 / context.learning_rate),
                      .lambda = single(own_.lambda1),
                      .beta = single(own_.beta),
                      .decay = single(context.weight_decay)},
          piece);
  }

 private:
  FtrlOptions own_;
};

}  // namespace

OptimizerPtr adagrad(const AdaGradOptions& options) {
  return std::make_shared<AdaGradRule>(options);
}
OptimizerPtr adadelta(const AdaDeltaOptions& options) {
  return std::make_shared<AdaDeltaRule>(options);
}
OptimizerPtr rmsprop(const RmsPropOptions& options) {
  return std::make_shared<RmsPropRule>(options);
}
OptimizerPtr ftrl(const FtrlOptions& options) { return std::make_shared<FtrlRule>(options); }

template <>
OptimizerPtr make_rule<"adagrad">(Arguments& arguments) {
  AdaGradOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return adagrad(options);
}

template <>
OptimizerPtr make_rule<"adadelta">(Arguments& arguments) {
  AdaDeltaOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return adadelta(options);
}

template <>
OptimizerPtr make_rule<"rmsprop">(Arguments& arguments) {
  RmsPropOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return rmsprop(options);
}

template <>
OptimizerPtr make_rule<"ftrl">(Arguments& arguments) {
  FtrlOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return ftrl(options);
}

}  // namespace lockstep::optim
