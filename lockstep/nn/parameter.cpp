// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/parameter.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/call_path.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::nn {
namespace {

thread_local ParameterScope* innermost = nullptr;

// FNV-1a.
std::uint32_t hash32(const std::string& text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

bool is_whole(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size >= 0; });
}

bool fits(const Shape& known, const Shape& shape) {
  return std::equal(known.begin(), known.end(), shape.begin(), shape.end(),
                    [](std::int64_t a, std::int64_t b) { return a == b || a == -1; });
}

// A child that nobody added was neither initialised nor given to whoever traces.
void check_added() {
  const std::string reason = detail::missing_child();
  if (!reason.empty()) throw InvalidArgument(reason);
}

Tensor from_scope(const ParameterScope& scope, const Parameter& parameter) {
  try {
    return scope.source()(parameter);
  } catch (const InvalidArgument&) {
    check_added();
    throw;
  }
}

}  // namespace

struct Parameter::State {
  std::string name = "parameter";
  Shape shape;
  ParameterOptions options;
  bool learnable = true;  // as the options were first
  bool frozen = false;
  autograd::GradMode grad_mode = autograd::GradMode::write;
  Tensor contents;
  // What initialize() asked for, until the shape is whole.
  Initializer pending;
  std::uint64_t seed = 0;

  void check_fits(const Shape& got) const {
    if (!fits(shape, got))
      throw InvalidArgument("{}: has shape {}, got {}", name, shape.str(), got.str());
  }

  // Always a tensor of its own, a leaf where gradients are wanted.
  void set_contents(const Tensor& value) {
    const InterceptScope past_everybody(nullptr);
    const Tensor fresh = Tensor::empty(value.shape(), options.dtype);
    fresh.assign(value);
    contents = fresh;
    attach();
  }

  void attach() const {
    if (!contents.defined() || !is_floating(contents.dtype())) return;
    autograd::attach_grad(contents, options.trainable ? grad_mode : autograd::GradMode::off);
  }

  // Outside of whoever records or traces: the contents are no part of what they see.
  void make_contents() {
    if (!pending || !is_whole(shape)) return;
    const InterceptScope past_everybody(nullptr);
    const RandomScope draws(random_key(seed, hash32(name)));
    const Initializer asked_for = std::exchange(pending, {});
    Tensor value;
    try {
      value = asked_for.make(shape);
      if (options.after_init) value = options.after_init(value);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("{}: {}", name, error.what());
    }
    check_fits(value.shape());
    set_contents(value);
  }
};

struct Parameter::Slot {
  std::shared_ptr<State> state;
};

Parameter::Parameter(const Shape& shape, ParameterOptions options)
    : slot_(std::make_shared<Slot>(Slot{std::make_shared<State>()})) {
  State& state = self();
  for (const std::int64_t size : shape)
    if (size < -1) throw InvalidArgument("parameter: shape {} has a size below -1", shape.str());
  state.shape = shape;
  state.learnable = options.trainable;
  state.options = std::move(options);
}

Parameter::State& Parameter::self() const {
  if (slot_ == nullptr) throw InvalidArgument("parameter: undefined");
  return *slot_->state;
}

const void* Parameter::identity() const { return slot_ ? slot_->state.get() : nullptr; }

void Parameter::check_can_share(const Parameter& other) const {
  if (!fits(shape(), other.shape()) && !fits(other.shape(), shape()))
    throw InvalidArgument("{}: has shape {}, cannot share {} with shape {}", name(), shape().str(),
                          other.name(), other.shape().str());
}

void Parameter::share(const Parameter& other) const {
  check_can_share(other);
  slot_->state = other.slot_->state;
}

const std::string& Parameter::name() const { return self().name; }
void Parameter::set_name(const std::string& name) const { self().name = name; }
const Shape& Parameter::shape() const { return self().shape; }
bool Parameter::has_whole_shape() const { return is_whole(self().shape); }
bool Parameter::takes(const Shape& shape) const { return fits(self().shape, shape); }
DType Parameter::dtype() const { return self().options.dtype; }
const ParameterOptions& Parameter::options() const { return self().options; }

void Parameter::set_trainable(bool trainable) const {
  State& state = self();
  state.frozen = !trainable;
  state.options.trainable = trainable && state.learnable;
  state.attach();
}

bool Parameter::is_frozen() const { return self().frozen; }

void Parameter::set_multipliers(double rate, double decay) const {
  self().options.rate_multiplier = rate;
  self().options.decay_multiplier = decay;
}

void Parameter::complete(const Shape& shape) const {
  State& state = self();
  state.check_fits(shape);
  if (is_whole(state.shape)) return;
  if (!is_whole(shape)) throw InvalidArgument("{}: shape {} is not whole", state.name, shape.str());
  state.shape = shape;
  state.make_contents();
}

void Parameter::initialize(const std::string& name, const Initializer& fallback, std::uint64_t seed,
                           bool force) const {
  State& state = self();
  state.name = name;
  if ((state.contents.defined() || state.pending) && !force) return;
  state.pending = state.options.init ? state.options.init : fallback;
  if (!state.pending) throw InvalidArgument("{}: there is no initialiser for it", name);
  state.seed = seed;
  state.contents = {};
  state.make_contents();
}

bool Parameter::is_initialized() const { return self().contents.defined(); }

Tensor Parameter::data() const {
  const State& state = self();
  if (const ParameterScope* scope = ParameterScope::current()) {
    if (is_whole(state.shape)) return from_scope(*scope, *this);
  } else if (state.contents.defined()) {
    return state.contents;
  }
  check_added();
  if (state.pending || ParameterScope::current())
    throw InvalidArgument(
        "{}: its shape {} is not known yet; call the block on a batch, or "
        "complete_shapes(), first",
        state.name, state.shape.str());
  throw InvalidArgument("{}: has no contents yet; call initialize() on the block first",
                        state.name);
}

void Parameter::set_data(const Tensor& value) const {
  State& state = self();
  state.check_fits(value.shape());
  state.shape = value.shape();
  state.pending = {};
  if (state.contents.defined())
    state.contents.assign(value);
  else
    state.set_contents(value);
}

void Parameter::update(const Tensor& value) const {
  const State& state = self();
  if (state.frozen) return;
  state.check_fits(value.shape());
  if (const ParameterScope* scope = ParameterScope::current())
    scope->sink()(*this, lockstep::cast(value, state.options.dtype));
  else
    set_data(value);
}

Tensor Parameter::grad() const {
  const State& state = self();
  return state.contents.defined() ? autograd::gradient(state.contents) : Tensor();
}

void Parameter::set_grad_mode(autograd::GradMode mode) const {
  self().grad_mode = mode;
  self().attach();
}

autograd::GradMode Parameter::grad_mode() const { return self().grad_mode; }

bool Parameter::wants_gradient() const {
  return self().options.trainable && self().grad_mode != autograd::GradMode::off;
}

void Parameter::cast(DType dtype) const {
  State& state = self();
  if (state.options.dtype == dtype) return;
  state.options.dtype = dtype;
  if (state.contents.defined()) state.set_contents(state.contents);
}

ParameterScope::ParameterScope(Source source, Sink sink)
    : source_(std::move(source)), sink_(std::move(sink)), outer_(innermost) {
  innermost = this;
}

ParameterScope::~ParameterScope() { innermost = outer_; }

const ParameterScope* ParameterScope::current() { return innermost; }

}  // namespace lockstep::nn
