// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/tensor/tensor_list.h"

namespace lockstep::autograd {

// While it lives, ops of this thread on tensors that want gradients are recorded, in train mode
// unless asked otherwise.
class RecordScope {
 public:
  explicit RecordScope(bool train_mode = true);
  ~RecordScope();
  RecordScope(const RecordScope&) = delete;
  RecordScope& operator=(const RecordScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While it lives, nothing is recorded.
class PauseScope {
 public:
  explicit PauseScope(bool train_mode = false);
  ~PauseScope();
  PauseScope(const PauseScope&) = delete;
  PauseScope& operator=(const PauseScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Train or predict mode alone, recording left as it is. Ops know no mode: dropout always drops, and
// batch_norm always takes the batch's statistics. nn/functional.h has those that ask is_training().
class ModeScope {
 public:
  explicit ModeScope(bool train_mode);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  bool saved_;
};

bool is_recording();
bool is_training();

enum class GradMode { write, add, off };

// Makes `x` a leaf whose gradient is kept, whatever came before. With `off` it wants none any more.
// Throws InvalidArgument when x is not floating.
void attach_grad(const Tensor& x, GradMode mode = GradMode::write);
// The gradient that backward left; undefined when there is none yet.
Tensor gradient(const Tensor& x);
// Sets a gradient that is there to zeros.
void zero_gradient(const Tensor& x);
bool requires_grad(const Tensor& x);

// Sends gradients from the heads to the leaves: zeros to those that only step functions (sign,
// argmax) lead to. A head's own is ones unless given (defined). Frees the record unless `retain`.
void backward(TensorList heads, TensorList head_grads = {}, bool retain = false);
void backward(const Tensor& head);

// Gradients of the heads with respect to `variables`, returned, not accumulated: leaves or results
// of recorded ops. A variable that the heads do not depend on gets zeros. With `create_graph` they
// are recorded themselves and can be differentiated again, and the record stays.
std::vector<Tensor> grad(TensorList heads, TensorList variables, TensorList head_grads = {},
                         bool create_graph = false, bool retain = false);

// A function with a gradient of its own. One instance serves one call. Under create_graph backward
// is recorded, so what it computes from saved inputs and output_grads can be differentiated again;
// outputs of forward that it saved have no history.
class Function {
 public:
  virtual ~Function() = default;
  virtual std::vector<Tensor> forward(std::span<const Tensor> inputs) = 0;
  virtual std::vector<Tensor> backward(std::span<const Tensor> output_grads) = 0;
};
std::vector<Tensor> call(std::shared_ptr<Function> function, TensorList inputs);

}  // namespace lockstep::autograd
