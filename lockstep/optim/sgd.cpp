// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/detail/options.h"
#include "lockstep/optim/detail/sweep.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {
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

OptimizerPtr make_sgd(Arguments& arguments) {
  SgdOptions options;
  arguments.take_common(options).take("momentum", options.momentum);
  arguments.take("nesterov", options.nesterov).take("dampening", options.dampening).finish();
  return sgd(options);
}

OptimizerPtr make_nag(Arguments& arguments) {
  SgdOptions options{.momentum = 0.9, .nesterov = true};
  arguments.take_common(options).take("momentum", options.momentum).finish();
  return sgd(options);
}

OptimizerPtr make_signum(Arguments& arguments) {
  SignumOptions options;
  arguments.take_common(options).take("momentum", options.momentum);
  arguments.take("wd_lh", options.decoupled_decay).finish();
  return signum(options);
}

}  // namespace lockstep::optim
