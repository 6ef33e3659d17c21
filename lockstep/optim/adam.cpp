// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/detail/options.h"
#include "lockstep/optim/detail/sweep.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {
namespace rules {
namespace {

// Adam, and AdamW with `shrink` below 1 and no decay in the gradient.
struct Adam {
  static constexpr int kSlots = 2;
  Gradient gradient;
  Moments moments;
  float rate;            // divided by the first correction
  float square_divisor;  // root of the second correction
  float epsilon, shrink;
  void step(float& w, float g, float& mean, float& square) const {
    moments.advance(gradient(g, w), mean, square);
    w = shrink * w - rate * (mean / (std::sqrt(square) / square_divisor + epsilon));
  }
};

// The divisor never shrinks.
struct AmsGrad : Adam {
  static constexpr int kSlots = 3;
  void step(float& w, float g, float& mean, float& square, float& largest) const {
    moments.advance(gradient(g, w), mean, square);
    largest = larger(largest, square);
    w = shrink * w - rate * (mean / (std::sqrt(largest) / square_divisor + epsilon));
  }
};

struct Adamax {
  static constexpr int kSlots = 2;
  Gradient gradient;
  float keep1, take1, keep2, rate, epsilon;
  void step(float& w, float g, float& mean, float& largest) const {
    const float slope = gradient(g, w);
    mean = blended(keep1, take1, mean, slope);
    largest = larger(keep2 * largest, std::abs(slope));
    w -= rate * (mean / (largest + epsilon));
  }
};

struct Nadam {
  static constexpr int kSlots = 2;
  Gradient gradient;
  Moments moments;
  float gradient_rate, mean_rate, square_divisor, epsilon;
  void step(float& w, float g, float& mean, float& square) const {
    const float slope = gradient(g, w);
    moments.advance(slope, mean, square);
    const float divisor = std::sqrt(square) / square_divisor + epsilon;
    w -= (gradient_rate * slope + mean_rate * mean) / divisor;
  }
};

}  // namespace
}  // namespace rules

template <class To>
void list_arguments(To& to, AdamOptions& options) {
  to.take_common(options).take_moments(options).take("amsgrad", options.amsgrad);
}

template <class To>
void list_arguments(To& to, AdamWOptions& options) {
  to.take_common(options).take_moments(options).take("amsgrad", options.amsgrad);
}

template <class To>
void list_arguments(To& to, AdamaxOptions& options) {
  to.take_common(options).take_moments(options);
}

template <class To>
void list_arguments(To& to, NadamOptions& options) {
  to.take_common(options).take_moments(options).take("schedule_decay", options.schedule_decay);
}

namespace {

template <class Options>
void check_moments(std::string_view rule, const Options& options) {
  const OptionChecks check{rule};
  check.in_unit("beta1", options.beta1);
  check.in_unit("beta2", options.beta2);
  check.positive("epsilon", options.epsilon);
}

template <class Options>
std::string describe_moments(const Options& options) {
  return fmt::format("beta1={}, beta2={}, epsilon={}", options.beta1, options.beta2,
                     options.epsilon);
}

// Adam and AdamW, which differ in where the decay goes.
class AdamRule final : public Optimizer {
 public:
  AdamRule(std::string_view name, bool decoupled, const AdamOptions& options)
      : Optimizer(common_options(name, options)),
        name_(name),
        decoupled_(decoupled),
        own_(options) {
    check_moments(name, options);
  }
  std::string_view name() const override { return name_; }
  int slots() const override { return own_.amsgrad ? 3 : 2; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return describe_moments(own_) + (own_.amsgrad ? ", amsgrad=true" : "");
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    const double rate = context.learning_rate;
    const double shrink = decoupled_ ? 1.0 - rate * context.weight_decay : 1.0;
    const rules::Adam rule{
        .gradient = gradient_of(context, decoupled_ ? 0.0 : context.weight_decay),
        .moments = moments_of(own_.beta1, own_.beta2),
        .rate = single(rate / correction(own_.beta1, context.step)),
        .square_divisor = single(std::sqrt(correction(own_.beta2, context.step))),
        .epsilon = single(own_.epsilon),
        .shrink = single(shrink)};
    own_.amsgrad ? sweep(rules::AmsGrad{rule}, piece) : sweep(rule, piece);
  }

 private:
  std::string_view name_;
  bool decoupled_;
  AdamOptions own_;
};

class AdamaxRule final : public Optimizer {
 public:
  explicit AdamaxRule(const AdamaxOptions& options)
      : Optimizer(common_options("adamax", options)), own_(options) {
    check_moments("adamax", options);
  }
  std::string_view name() const override { return "adamax"; }
  int slots() const override { return 2; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override { return describe_moments(own_); }

  void update(const UpdateContext& context, const Piece& piece) const override {
    const double rate = context.learning_rate / correction(own_.beta1, context.step);
    sweep(rules::Adamax{.gradient = gradient_of(context),
                        .keep1 = single(own_.beta1),
                        .take1 = single(1.0 - own_.beta1),
                        .keep2 = single(own_.beta2),
                        .rate = single(rate),
                        .epsilon = single(own_.epsilon)},
          piece);
  }

 private:
  AdamaxOptions own_;
};

class NadamRule final : public Optimizer {
 public:
  explicit NadamRule(const NadamOptions& options)
      : Optimizer(common_options("nadam", options)), own_(options) {
    check_moments("nadam", options);
    OptionChecks{"nadam"}.not_negative("schedule_decay", own_.schedule_decay);
  }
  std::string_view name() const override { return "nadam"; }
  int slots() const override { return 2; }
  std::map<std::string, double> arguments() const override { return arguments_of(own_); }
  std::string description() const override {
    return fmt::format("{}, schedule_decay={}", describe_moments(own_), own_.schedule_decay);
  }

  void update(const UpdateContext& context, const Piece& piece) const override {
    const double rate = context.learning_rate;
    const double now = momentum(context.step);
    const double next = momentum(context.step + 1);
    const double product = momenta(context.step);
    sweep(rules::Nadam{.gradient = gradient_of(context),
                       .moments = moments_of(own_.beta1, own_.beta2),
                       .gradient_rate = single(rate * (1.0 - now) / (1.0 - product)),
                       .mean_rate = single(rate * next / (1.0 - product * next)),
                       .square_divisor = single(std::sqrt(correction(own_.beta2, context.step))),
                       .epsilon = single(own_.epsilon)},
          piece);
  }

 private:
  double momentum(std::int64_t step) const {
    const double power = std::pow(0.96, static_cast<double>(step) * own_.schedule_decay);
    return own_.beta1 * (1.0 - 0.5 * power);
  }

  // The product of the momenta of steps 1 to `step`, without a loop over steps, because a rule has
  // no memory: with q = 0.96^schedule_decay its logarithm is step * log(beta1) + the sum over i of
  // log(1 - q^i / 2), and -log(1 - x) = x + x^2 / 2 + x^3 / 3 + ... makes that sum a series of
  // geometric ones.
  double momenta(std::int64_t step) const {
    const auto count = static_cast<double>(step);
    const double log_beta = count * std::log(own_.beta1);
    if (log_beta < -50.0) return 0.0;  // 1 - product is 1
    const double q = std::pow(0.96, own_.schedule_decay);
    if (q == 1.0) return std::exp(log_beta - count * std::log(2.0));
    double sum = 0.0;
    double power = 1.0;  // (q / 2)^k
    for (int k = 1; k <= 60; ++k) {
      power *= 0.5 * q;
      const double log_q = k * std::log(q);
      sum += power / k * std::expm1(count * log_q) / std::expm1(log_q);
    }
    return std::exp(log_beta - sum);
  }

  NadamOptions own_;
};

}  // namespace

OptimizerPtr adam(const AdamOptions& options) {
  return std::make_shared<AdamRule>("adam", false, options);
}

OptimizerPtr adamw(const AdamWOptions& o) {
  return std::make_shared<AdamRule>("adamw", true,
                                    AdamOptions{.learning_rate = o.learning_rate,
                                                .beta1 = o.beta1,
                                                .beta2 = o.beta2,
                                                .epsilon = o.epsilon,
                                                .weight_decay = o.weight_decay,
                                                .clip_value = o.clip_value,
                                                .clip_norm = o.clip_norm,
                                                .amsgrad = o.amsgrad});
}

OptimizerPtr adamax(const AdamaxOptions& options) { return std::make_shared<AdamaxRule>(options); }
OptimizerPtr nadam(const NadamOptions& options) { return std::make_shared<NadamRule>(options); }

template <>
OptimizerPtr make_rule<"adam">(Arguments& arguments) {
  AdamOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return adam(options);
}

template <>
OptimizerPtr make_rule<"adamw">(Arguments& arguments) {
  AdamWOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return adamw(options);
}

template <>
OptimizerPtr make_rule<"adamax">(Arguments& arguments) {
  AdamaxOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return adamax(options);
}

template <>
OptimizerPtr make_rule<"nadam">(Arguments& arguments) {
  NadamOptions options;
  list_arguments(arguments, options);
  arguments.finish();
  return nadam(options);
}

}  // namespace lockstep::optim
