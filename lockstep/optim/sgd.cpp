// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/detail/options.h"
#include "lockstep/optim/detail/sweep.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {
namespace rules {
namespace {

struct Sgd {
  static constexpr int kSlots = 0;
  Gradient gradient;
  float rate;
  void step(float& w, float g) const { w -= rate * gradient(g, w); }
};

struct SgdMomentum {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum, take;
  void step(float& w, float g, float& buffer) const {
    buffer = blended(momentum, take, buffer, gradient(g, w));
    w -= rate * buffer;
  }
};

struct Nesterov {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum;
  void step(float& w, float g, float& buffer) const {
    const float slope = gradient(g, w);
    buffer = momentum * buffer + slope;
    w -= rate * (slope + momentum * buffer);
  }
};

struct SignSgd {
  static constexpr int kSlots = 0;
  Gradient gradient;
  float rate, shrink;
  void step(float& w, float g) const { w = shrink * w - rate * sign(gradient(g, w)); }
};

struct Signum {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, shrink, keep, take;
  void step(float& w, float g, float& mean) const {
    mean = blended(keep, take, mean, gradient(g, w));
    w = shrink * w - rate * sign(mean);
  }
};

}  // namespace
}  // namespace rules

template <class To>
void list_arguments(To& to, SgdOptions& options) {
  to.take_common(options).take("momentum", options.momentum);
  to.take("nesterov", options.nesterov).take("dampening", options.dampening);
}

template <class To>
void list_arguments(To& to, SignumOptions& options) {
  to.take_common(options).take("momentum", options.momentum);
  to.take("wd_lh", options.decoupled_decay);
}

namespace {

class SgdRule final : public Optimizer {
 public:
  explicit SgdRule(const SgdOptions& options)
      : Optimizer(common_options("sgd", options)), own_(options) {
    OptionChecks{"sgd"}.in_unit("momentum", own_.momentum);
    OptionChecks{"sgd"}.in_unit("dampening", own_.dampening);
    if (own_.dampening != 0.0 && (own_.nesterov || own_.momentum == 0.0))
      throw InvalidArgument("sgd: dampening {}, expected {}", own_.dampening,
                            own_.nesterov ? "none beside nesterov" : "a momentum above 0 with it");
    if (own_.nesterov && own_.momentum == 0.0)
      throw InvalidArgument("sgd: nesterov without momentum, expected a momentum above 0");
  }
  std::string_view name() const override { return "sgd"; }
  int slots() const override { return own_.momentum == 0.0 ? 0 : 1; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    const std::string damped =
        own_.dampening == 0.0 ? "" : fmt::format(", dampening={}", own_.dampening);
    return fmt::format("momentum={}, nesterov={}{}", own_.momentum, own_.nesterov, damped);
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    const rules::Gradient gradient = gradient_of(context);
    const float rate = single(context.learning_rate);
    const float momentum = single(own_.momentum);
    if (slots() == 0) return sweep(rules::Sgd{gradient, rate}, piece);
    if (own_.nesterov) return sweep(rules::Nesterov{gradient, rate, momentum}, piece);
    const float take = single(context.step == 1 ? 1.0 : 1.0 - own_.dampening);
    sweep(rules::SgdMomentum{gradient, rate, momentum, take}, piece);
  }

 private:
  SgdOptions own_;
};

class SignumRule final : public Optimizer {
 public:
  explicit SignumRule(const SignumOptions& options)
      : Optimizer(common_options("signum", options)), own_(options) {
    OptionChecks{"signum"}.in_unit("momentum", own_.momentum);
    OptionChecks{"signum"}.not_negative("decoupled_decay", own_.decoupled_decay);
  }
  std::string_view name() const override { return "signum"; }
  int slots() const override { return own_.momentum == 0.0 ? 0 : 1; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("momentum={}, decoupled_decay={}", own_.momentum, own_.decoupled_decay);
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    const rules::Gradient gradient = gradient_of(context);
    const float rate = single(context.learning_rate);
    const float shrink = single(1.0 - context.learning_rate * own_.decoupled_decay);
    if (slots() == 0) return sweep(rules::SignSgd{gradient, rate, shrink}, piece);
    sweep(rules::Signum{.gradient = gradient,
                        .rate = rate,
                        .shrink = shrink,
                        .keep = single(own_.momentum),
                        .take = single(1.0 - own_.momentum)},
          piece);
  }

 private:
  SignumOptions own_;
};

}  // namespace

OptimizerPtr sgd(const SgdOptions& options) { return std::make_shared<SgdRule>(options); }
OptimizerPtr signum(const SignumOptions& options) { return std::make_shared<SignumRule>(options); }

template <>
OptimizerPtr make_rule<"sgd">(Arguments& arguments) {
  SgdOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return sgd(options);
}

template <>
OptimizerPtr make_rule<"nag">(Arguments& arguments) {
  SgdOptions options{.momentum = 0.9, .nesterov = true};
  arguments.take_common(options).take("momentum", options.momentum).finish();
  return sgd(options);
}

template <>
OptimizerPtr make_rule<"signum">(Arguments& arguments) {
  SignumOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return signum(options);
}

}  // namespace lockstep::optim
