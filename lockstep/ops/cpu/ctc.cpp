// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/loss_attrs.h"

// Graves et al., "Connectionist temporal classification", 2006. The states of a sample are its
// labels with blanks before, between and after them. alpha[t][s] is the log-probability of all
// prefixes that are in state s at step t, beta[t][s] that of all suffixes which start there; both
// count the step's own emission. Everything is in log space and float64, whatever the logits are.
namespace lockstep::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log1p(std::exp(std::min(a, b) - most));
}

struct Problem {
  TensorView logits, labels, lengths;
  std::int64_t blank;

  std::int64_t steps() const { return logits.shape[0]; }
  std::int64_t samples() const { return logits.shape[1]; }
  std::int64_t classes() const { return logits.shape[2]; }
};

std::int64_t length_of(const Problem& problem, std::int64_t sample) {
  const std::int64_t length = problem.lengths.as<const std::int64_t>()[sample];
  if (length < 0 || length > problem.steps())
    throw InvalidArgument("ctc_loss: input length {} of sample {} is outside 0..{}", length, sample,
                          problem.steps());
  return length;
}

// Labels with blanks around each.
std::vector<std::int64_t> states_of(const Problem& problem, std::int64_t sample) {
  const std::int64_t longest = problem.labels.shape[1];
  const auto* row = problem.labels.as<const std::int64_t>() + sample * longest;
  std::vector<std::int64_t> states{problem.blank};
  for (std::int64_t i = 0; i < longest && row[i] >= 0; ++i) {
    if (row[i] >= problem.classes() || row[i] == problem.blank)
      throw InvalidArgument("ctc_loss: label {} at [{}, {}] is {}", row[i], sample, i,
                            row[i] == problem.blank
                                ? "the blank"
                                : fmt::format("outside 0..{}", problem.classes() - 1));
    states.push_back(row[i]);
    states.push_back(problem.blank);
  }
  return states;
}

// One sample at a time; the tables keep their memory from one to the next.
template <class T>
class Lattice {
 public:
  explicit Lattice(const Problem& problem) : problem_(problem) {}

  double forward(std::int64_t sample) {
    start(sample);
    if (steps_ == 0) return loss_ = states_.size() == 1 ? 0.0 : -kNever;
    fill_alpha();
    const double* last = &at(alpha_, steps_ - 1, 0);
    const std::size_t n = states_.size();
    return loss_ = -(n > 1 ? log_add(last[n - 1], last[n - 2]) : last[0]);
  }

  // After forward: the loss's gradient, softmax less the posterior, times `grad`. None where the
  // loss is infinite, NaN where it is NaN.
  void backward(std::int64_t sample, double grad, T* out) {
    for (std::int64_t t = 0; t < problem_.steps(); ++t)
      std::fill_n(out + row(t, sample), problem_.classes(),
                  t < steps_ && std::isnan(loss_) ? static_cast<T>(loss_) : T{0});
    if (steps_ == 0 || !std::isfinite(loss_)) return;
    std::vector<double> beta, next;
    for (std::int64_t t = steps_ - 1; t >= 0; --t) {
      fill_beta(t, next, beta);
      write_row(t, beta, grad, out + row(t, sample));
      std::swap(beta, next);
    }
  }

 private:
  std::int64_t row(std::int64_t t, std::int64_t sample) const {
    return (t * problem_.samples() + sample) * problem_.classes();
  }
  double& at(std::vector<double>& table, std::int64_t t, std::size_t s) {
    return table[static_cast<std::size_t>(t) * states_.size() + s];
  }
  double emission(std::int64_t t, std::size_t s) const {
    return log_p_[static_cast<std::size_t>(t * problem_.classes() + states_[s])];
  }
  // Two states apart without the blank between: only where the labels differ.
  bool may_skip(std::size_t to) const {
    return to >= 2 && states_[to] != problem_.blank && states_[to] != states_[to - 2];
  }

  void start(std::int64_t sample) {
    steps_ = length_of(problem_, sample);
    states_ = states_of(problem_, sample);
    log_p_.resize(static_cast<std::size_t>(steps_ * problem_.classes()));
    for (std::int64_t t = 0; t < steps_; ++t)
      log_softmax(problem_.logits.as<const T>() + row(t, sample),
                  log_p_.data() + t * problem_.classes());
  }

  void log_softmax(const T* x, double* out) const {
    const std::int64_t classes = problem_.classes();
    const double most = static_cast<double>(*std::max_element(x, x + classes));
    double sum = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(x[c]) - most);
    const double log_sum = std::log(sum);
    for (std::int64_t c = 0; c < classes; ++c) out[c] = static_cast<double>(x[c]) - most - log_sum;
  }

  void fill_alpha() {
    alpha_.assign(static_cast<std::size_t>(steps_) * states_.size(), kNever);
    for (std::size_t s = 0; s < std::min<std::size_t>(2, states_.size()); ++s)
      at(alpha_, 0, s) = emission(0, s);
    for (std::int64_t t = 1; t < steps_; ++t)
      for (std::size_t s = 0; s < states_.size(); ++s) {
        double reached = at(alpha_, t - 1, s);
        if (s >= 1) reached = log_add(reached, at(alpha_, t - 1, s - 1));
        if (may_skip(s)) reached = log_add(reached, at(alpha_, t - 1, s - 2));
        at(alpha_, t, s) = reached + emission(t, s);
      }
  }

  void fill_beta(std::int64_t t, const std::vector<double>& next, std::vector<double>& beta) const {
    const std::size_t n = states_.size();
    beta.assign(n, kNever);
    for (std::size_t s = 0; s < n; ++s) {
      double left = t == steps_ - 1 ? (s + 2 >= n ? 0.0 : kNever) : next[s];
      if (t < steps_ - 1 && s + 1 < n) left = log_add(left, next[s + 1]);
      if (t < steps_ - 1 && s + 2 < n && may_skip(s + 2)) left = log_add(left, next[s + 2]);
      beta[s] = left + emission(t, s);
    }
  }

  void write_row(std::int64_t t, const std::vector<double>& beta, double grad, T* out) {
    const double* log_p = log_p_.data() + t * problem_.classes();
    row_.resize(static_cast<std::size_t>(problem_.classes()));
    for (std::size_t c = 0; c < row_.size(); ++c) row_[c] = std::exp(log_p[c]);
    for (std::size_t s = 0; s < states_.size(); ++s) {
      const double both = at(alpha_, t, s) + beta[s];
      if (both != kNever)
        row_[static_cast<std::size_t>(states_[s])] -= std::exp(both - emission(t, s) + loss_);
    }
    for (std::size_t c = 0; c < row_.size(); ++c) out[c] = static_cast<T>(grad * row_[c]);
  }

  const Problem& problem_;
  std::int64_t steps_ = 0;
  double loss_ = 0.0;
  std::vector<std::int64_t> states_;
  std::vector<double> log_p_, alpha_, row_;
};

Problem problem_of(const KernelCall& call, std::size_t first) {
  return {call.inputs[first], call.inputs[first + 1], call.inputs[first + 2],
          call.attrs.as<CtcAttrs>().blank};
}

template <class T>
void forward(const KernelCall& call) {
  const Problem problem = problem_of(call, 0);
  Lattice<T> lattice(problem);
  for (std::int64_t n = 0; n < problem.samples(); ++n)
    call.outputs[0].as<T>()[n] = static_cast<T>(lattice.forward(n));
}

template <class T>
void backward(const KernelCall& call) {
  const Problem problem = problem_of(call, 1);
  Lattice<T> lattice(problem);
  for (std::int64_t n = 0; n < problem.samples(); ++n) {
    lattice.forward(n);
    lattice.backward(n, static_cast<double>(call.inputs[0].as<const T>()[n]),
                     call.outputs[0].as<T>());
  }
}

constexpr DTypeSet kSingle{DType::float32};
constexpr DTypeSet kDouble{DType::float64};

}  // namespace

std::span<const KernelCandidate> ctc_loss_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kSingle, forward<float>},
                                             {"plain", kDouble, forward<double>}};
  return list;
}

std::span<const KernelCandidate> ctc_loss_backward_kernels() {
  static constexpr KernelCandidate list[] = {{"plain", kSingle, backward<float>},
                                             {"plain", kDouble, backward<double>}};
  return list;
}

}  // namespace lockstep::kernels
