// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/initializer.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

struct ParameterOptions {
  // How it starts; without one, as Block::initialize is told.
  Initializer init = {};
  DType dtype = DType::float32;
  // false: not learnt by gradients (running statistics).
  bool trainable = true;
  double rate_multiplier = 1.0;
  double decay_multiplier = 1.0;
  // Changes the contents that the initialiser made (an embedding's row of zeros).
  std::function<Tensor(const Tensor&)> after_init = {};
  // A table [rows, width] that forward only looks up (embedding): a training step has gradients of
  // the rows that were looked up, and changes no others.
  bool sparse_grad = false;
  // Of such a table, the row that no lookup gives a gradient (padding's).
  std::optional<std::int64_t> padding_row = {};
};

// A named tensor of a block: a handle, cheap to copy; copies are the same parameter, which is how
// blocks share one. Its shape may have extents of -1 until the first input tells them.
class Parameter {
 public:
  Parameter() = default;  // undefined
  explicit Parameter(const Shape& shape, ParameterOptions options = {});

  bool defined() const { return slot_ != nullptr; }
  bool same_as(const Parameter& other) const { return identity() == other.identity(); }
  const void* identity() const;
  // From now on this handle and its copies are `other`.
  void share(const Parameter& other) const;
  // Throws InvalidArgument when the shapes do not fit.
  void check_can_share(const Parameter& other) const;

  // Its path from the block that was initialised, such as "features.0.weight".
  const std::string& name() const;
  void set_name(const std::string& name) const;
  const Shape& shape() const;
  bool has_whole_shape() const;
  // Whether contents of `shape` would fit.
  bool takes(const Shape& shape) const;
  DType dtype() const;
  const ParameterOptions& options() const;
  // false: frozen; still part of the model, but neither gradients nor update() change it. true: as
  // its options were first.
  void set_trainable(bool trainable) const;
  bool is_frozen() const;
  void set_multipliers(double rate, double decay) const;

  // Fills the extents that are not known yet. Throws InvalidArgument when a known one differs.
  void complete(const Shape& shape) const;
  // Contents by `fallback` where the options name no initialiser: a function of the seed and the
  // name. Waits for complete() when the shape is not whole. Keeps contents that are there, or that
  // wait, unless `force`.
  void initialize(const std::string& name, const Initializer& fallback, std::uint64_t seed,
                  bool force = false) const;
  bool is_initialized() const;

  // The contents; under a ParameterScope of this thread what that gives. Throws InvalidArgument
  // when there are none yet, and says what to call.
  Tensor data() const;
  // Copies `value` (converted); the shape must fit.
  void set_data(const Tensor& value) const;
  // A new value that no gradient makes (running statistics): assigned, or given to the
  // ParameterScope.
  void update(const Tensor& value) const;
  // What backward left; undefined when there is none.
  Tensor grad() const;
  // With `off` it has none, and no trainer changes it.
  void set_grad_mode(autograd::GradMode mode) const;
  autograd::GradMode grad_mode() const;
  // Trainable, and not `off`.
  bool wants_gradient() const;
  void cast(DType dtype) const;

 private:
  struct State;
  struct Slot;
  State& self() const;
  std::shared_ptr<Slot> slot_;  // the handles that share() moves together
};

// While it lives, parameters of this thread are what the scope's source says, and their updates go
// to its sink: how a model is traced with its parameters as inputs. Scopes nest.
class ParameterScope {
 public:
  using Source = std::function<Tensor(const Parameter&)>;
  using Sink = std::function<void(const Parameter&, const Tensor&)>;
  ParameterScope(Source source, Sink sink);
  ~ParameterScope();
  ParameterScope(const ParameterScope&) = delete;
  ParameterScope& operator=(const ParameterScope&) = delete;

  // The innermost of this thread, or null.
  static const ParameterScope* current();
  const Source& source() const { return source_; }
  const Sink& sink() const { return sink_; }

 private:
  Source source_;
  Sink sink_;
  ParameterScope* outer_;
};

}  // namespace lockstep::nn
