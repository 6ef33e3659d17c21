// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/nn/block.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/schedule.h"

namespace lockstep::optim {

struct UpdaterOptions {
  // A parameter that backward left no gradient for stays as it is, instead of being an error.
  bool ignore_missing_gradients = false;
};

// Applies a rule to parameters after backward: what a loop written by hand calls. float16 and
// bfloat16 parameters have a float32 copy here, which is what the rule changes.
//
//   Updater updater(net->parameters(), sgd({.learning_rate = 0.1, .momentum = 0.9}));
//   ...
//   backward(loss);
//   updater.step(batch_size);
class Updater {
 public:
  // Without a schedule the rate is the rule's own.
  Updater(std::vector<nn::NamedParameter> parameters, OptimizerPtr rule,
          std::optional<Schedule> schedule = {}, const UpdaterOptions& options = {});

  // One update of every trainable parameter, with gradients divided by `batch_size`: 1 when the
  // loss was a mean. Throws InvalidArgument, before anything has changed, when one has no gradient.
  void step(std::int64_t batch_size = 1);

  std::int64_t steps() const { return steps_; }
  // Of the next step.
  double learning_rate() const { return schedule_.rate(steps_); }
  // From now on, instead of a schedule.
  void set_learning_rate(double rate);

  // What the rule keeps, and the number of steps. load() throws Corrupt or InvalidArgument, before
  // anything has changed, when the file is of other parameters or another rule.
  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  struct Entry {
    std::string name;
    nn::Parameter parameter;
    Tensor master;              // of a parameter that is not float32
    std::vector<Tensor> slots;  // once there was a step
  };
  struct Work;

  std::vector<Work> gather();
  void prepare(Entry& entry) const;

  std::vector<Entry> entries_;
  OptimizerPtr rule_;
  Schedule schedule_;
  UpdaterOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::optim
