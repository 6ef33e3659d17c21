// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/optim/optimizer.h"

// The update rules. g below is the gradient after scaling, clipping to clip_value and, except where
// the decay is said to be decoupled, weight decay: g + weight_decay * w. t counts steps from 1.
namespace lockstep::optim {

// b = momentum * b + (1 - dampening) * g, but g alone in the first step; w -= rate * b. With
// nesterov, which takes no dampening: w -= rate * (g + momentum * b).
// As PyTorch; MXNet keeps rate * b in its buffer, which differs only when the rate changes.
struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
  double dampening = 0.0;
};
OptimizerPtr sgd(const SgdOptions& options = {});

// m, v: running means of g and g^2, corrected for their start at zero.
// w -= rate * m / (sqrt(v) + epsilon). MXNet does not correct v under epsilon.
// With amsgrad v is the largest so far (Reddi et al., 2018), chosen before the correction.
struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
  bool amsgrad = false;
};
OptimizerPtr adam(const AdamOptions& options = {});

// Adam with decoupled decay: w *= 1 - rate * weight_decay first.
struct AdamWOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip_value = 0.0;
  double clip_norm = 0.0;
  bool amsgrad = false;
};
OptimizerPtr adamw(const AdamWOptions& options = {});

// u = max(beta2 * u, |g|); w -= rate / (1 - beta1^t) * m / (u + epsilon).
// PyTorch has epsilon inside the maximum, MXNet 1 has none.
struct AdamaxOptions {
  double learning_rate = 0.002;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr adamax(const AdamaxOptions& options = {});

// Adam with Nesterov's momentum, beta1 * (1 - 0.96^(t * schedule_decay) / 2), as PyTorch. MXNet
// multiplies its product of momenta once for each parameter instead of once for each step.
struct NadamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double schedule_decay = 0.004;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr nadam(const NadamOptions& options = {});

// s += g^2; w -= rate * g / (sqrt(s) + epsilon).
struct AdaGradOptions {
  double learning_rate = 0.01;
  double epsilon = 1e-7;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr adagrad(const AdaGradOptions& options = {});

// d = g * sqrt(mean of d^2 + epsilon) / sqrt(mean of g^2 + epsilon); w -= rate * d.
struct AdaDeltaOptions {
  double learning_rate = 1.0;
  double rho = 0.9;
  double epsilon = 1e-6;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr adadelta(const AdaDeltaOptions& options = {});

// b = momentum * b + g / (sqrt(v) + epsilon), v: running mean of g^2, when centered less the square
// of that of g; w -= rate * b. As PyTorch; MXNet has epsilon under the root.
struct RmsPropOptions {
  double learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0.0;
  double epsilon = 1e-8;
  bool centered = false;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr rmsprop(const RmsPropOptions& options = {});

// Follow the regularised leader, per coordinate, with L1 (lambda1) and L2 (weight_decay): a weight
// whose |z| is at most lambda1 is exactly zero. As MXNet. A step at rate 0 changes nothing.
struct FtrlOptions {
  double learning_rate = 0.1;
  double lambda1 = 0.01;
  double beta = 1.0;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr ftrl(const FtrlOptions& options = {});

// Adam's direction plus weight_decay * w, as long as the parameter:
// w -= rate * |w| / |direction| * direction, |w| held within the bounds. The quotient is 1 where a
// norm is 0. An upper bound of 0 is none.
struct LambOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double lower_bound = 0.0;
  double upper_bound = 0.0;
  bool bias_correction = true;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr lamb(const LambOptions& options = {});

// SGD whose rate for a parameter is times eta * |w| / (|g| + weight_decay * |w| + epsilon), |g|
// before decay; 1 where a norm is 0. b = momentum * b + rate * g; w -= b, as the paper has it.
struct LarsOptions {
  double learning_rate = 0.1;
  double momentum = 0.9;
  double eta = 0.001;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr lars(const LarsOptions& options = {});

// m: running mean of g; w = (1 - rate * decoupled_decay) * w - rate * sign(m).
struct SignumOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
  double decoupled_decay = 0.0;
  double weight_decay = 0.0;
  double clip_value = 0.0;
  double clip_norm = 0.0;
};
OptimizerPtr signum(const SignumOptions& options = {});

// A rule by name, in any case, with MXNet's parameter names: learning_rate, wd, clip_gradient and
// the rule's own (momentum, beta1, gamma1, ...). Throws NotFound for a name there is no rule of and
// InvalidArgument for a parameter that the rule has not; both list what there is.
OptimizerPtr make_optimizer(std::string_view name,
                            const std::map<std::string, double>& parameters = {});
// The names, sorted.
std::vector<std::string> optimizer_names();

}  // namespace lockstep::optim
