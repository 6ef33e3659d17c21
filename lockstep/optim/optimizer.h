// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::optim {

// What an update of one parameter needs besides its memory.
struct UpdateContext {
  std::int64_t step = 1;        // of the optimiser, from 1
  double learning_rate = 0.0;   // the schedule's, with the parameter's multiplier
  double weight_decay = 0.0;    // with the parameter's multiplier
  double gradient_scale = 1.0;  // the gradient is multiplied by it first (mean, global clipping)
  double clip_value = 0.0;      // then clipped to [-clip_value, clip_value]; 0: not
  double weight_norm = 0.0;     // of the whole parameter: for rules that measure
  double direction_norm = 0.0;  // what measure() summed, over the whole parameter
};

// Sums of squares over a piece of a parameter.
struct PieceNorms {
  double weight = 0.0;
  double direction = 0.0;
};

// One piece of one parameter: element i of the weight, the gradient and each slot belong together.
// All are float32; pieces of one parameter may be updated by different threads.
struct Piece {
  std::span<float> weight;
  std::span<const float> gradient;
  std::span<float* const> slots;
};

struct CommonOptions {
  double learning_rate = 0.01;
  double weight_decay = 0.0;
  double clip_value = 0.0;  // of each gradient element, after averaging
  double clip_norm = 0.0;   // of all gradients together, after averaging
};

// An update rule. It has no state of its own: what it keeps for a weight is in slots, float32 each,
// zero at the start. The result for an element depends on that element's piece alone, so it does
// not change with the number of threads; an element whose weight, gradient and slots are zero stays
// zero.
class Optimizer {
 public:
  explicit Optimizer(CommonOptions options) : options_(options) {}
  virtual ~Optimizer() = default;
  virtual std::string_view name() const = 0;
  virtual int slots() const = 0;
  virtual void update(const UpdateContext& context, const Piece& piece) const = 0;
  // Rules whose step depends on norms of a whole parameter (LARS, LAMB): measure() runs over all
  // pieces first (and may change the slots), then update() with the sums' roots in the context.
  virtual bool measures() const { return false; }
  virtual PieceNorms measure(const UpdateContext& context, const Piece& piece) const;
  // The rule's own numbers, for run folders: "momentum=0.9, nesterov=false".
  virtual std::string description() const = 0;
  // What make_optimizer() makes the same rule of, with its name. Throws Unsupported for a rule that
  // it does not know.
  virtual std::map<std::string, double> arguments() const;
  const CommonOptions& options() const { return options_; }

 private:
  CommonOptions options_;
};

using OptimizerPtr = std::shared_ptr<const Optimizer>;

}  // namespace lockstep::optim
