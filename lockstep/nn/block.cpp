// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/block.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/nn/complete_shapes.h"
#include "lockstep/nn/detail/call_observer.h"
#include "lockstep/nn/detail/call_path.h"
#include "lockstep/nn/detail/compiled_block.h"
#include "lockstep/nn/detail/contains.h"
#include "lockstep/nn/placed_error.h"

namespace lockstep::nn {
namespace {

// The block whose forward has fallen back on forward_all: if that falls back too, neither is there.
thread_local const Block* falling_back = nullptr;

class FallBack {
 public:
  explicit FallBack(const Block* block) : saved_(falling_back) { falling_back = block; }
  ~FallBack() { falling_back = saved_; }
  FallBack(const FallBack&) = delete;
  FallBack& operator=(const FallBack&) = delete;

 private:
  const Block* saved_;
};

// The block whose forward runs: what it calls may have been replaced in it.
thread_local const Block* calling = nullptr;

void check_name(const char* what, const std::string& name, bool taken) {
  if (name.empty() || name.find('.') != std::string::npos)
    throw InvalidArgument("block: {} is named '{}', expected a name without dots", what, name);
  if (taken) throw InvalidArgument("block: there is a {} named '{}' already", what, name);
}

// Own parameters first, then the children's, each parameter once.
void collect(const Block& block, const std::vector<NamedParameter>& own, const std::string& prefix,
             std::set<const void*>& seen, std::vector<NamedParameter>& all) {
  for (const NamedParameter& named : own)
    if (seen.insert(named.parameter.identity()).second)
      all.push_back({prefix + named.name, named.parameter});
  for (const Block::Child& child : block.children())
    collect(*child.block, child.block->own_parameters(), prefix + child.name + ".", seen, all);
}

std::string names_of(const std::vector<NamedParameter>& parameters) {
  std::string names;
  for (const NamedParameter& named : parameters) names += (names.empty() ? "" : ", ") + named.name;
  return names.empty() ? "none" : names;
}

bool is_watched(const std::vector<Tensor>& inputs) {
  return autograd::is_recording() || ParameterScope::current() != nullptr ||
         detail::CallObserver::current() != nullptr ||
         std::any_of(inputs.begin(), inputs.end(),
                     [](const Tensor& x) { return x.is_symbolic() || !x.defined(); });
}

// `any`: whether there is a parameter at all.
bool is_frozen(const Block& block, bool& any) {
  const auto stays = [&](const NamedParameter& named) {
    any = true;
    return named.parameter.is_frozen() || named.parameter.grad_mode() == autograd::GradMode::off;
  };
  const auto& own = block.own_parameters();
  const auto& children = block.children();
  return std::all_of(own.begin(), own.end(), stays) &&
         std::all_of(children.begin(), children.end(),
                     [&](const Block::Child& child) { return is_frozen(*child.block, any); });
}

bool is_frozen(const Block& block) {
  bool any = false;
  return is_frozen(block, any) && any;
}

// While it lives, autograd's mode is the block's.
class CallMode {
 public:
  explicit CallMode(const Block& block) {
    const bool training = autograd::is_training();
    bool wanted = training;
    if (block.mode() != Mode::inherit)
      wanted = block.mode() == Mode::train;
    else if (training)
      wanted = !is_frozen(block);
    if (wanted != training) scope_.emplace(wanted);
  }

 private:
  std::optional<autograd::ModeScope> scope_;
};

void collect_states(const Block& block, std::vector<Block::State>& states) {
  states.push_back(block.state());
  for (const Block::Child& child : block.children()) collect_states(*child.block, states);
}

// With the hooks: what a block gives is what its caller gets.
template <class F>
std::vector<Tensor> observed(const Block& block, F&& call) {
  detail::CallObserver* observer = detail::CallObserver::current();
  if (observer == nullptr) return call();
  observer->begin(block);
  std::vector<Tensor> outputs = call();
  observer->end(block, outputs);
  return outputs;
}

// An error says where in the model it happened.
template <class F>
auto located(const Block& block, F&& call) {
  const detail::CallScope scope(block);
  if (!scope.is_outermost()) return call();
  try {
    return call();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(detail::CallScope::failed_path() + error.what());
  } catch (const Unsupported& error) {
    throw Unsupported(detail::CallScope::failed_path() + error.what());
  } catch (PlacedError& error) {
    error.set_place(detail::CallScope::failed_path());
    throw;
  }
}

}  // namespace

Block::Block() = default;
Block::~Block() = default;

Tensor Block::forward(const Tensor& x) {
  const FallBack mark(this);
  const std::vector<Tensor> outputs = forward_all({x});
  if (outputs.empty()) throw InvalidArgument("{}: gives no output", description());
  return outputs.front();
}

std::vector<Tensor> Block::forward_all(const std::vector<Tensor>& inputs) {
  if (falling_back == this)
    throw InvalidArgument("{}: has neither forward nor forward_all", description());
  if (inputs.size() != 1)
    throw InvalidArgument("{}: takes 1 input, got {}", description(), inputs.size());
  return {forward(inputs[0])};
}

// A block that was replaced is still what its parent's code calls. What is a child now is meant as
// it is: who calls children() calls those.
class Block::Call {
 public:
  explicit Call(const Block& block) : saved_(calling) { calling = &block; }
  ~Call() { calling = saved_; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  static Block* replacement_of(const Block& block) {
    if (calling == nullptr || calling->replaced_.empty()) return nullptr;
    for (const Child& child : calling->children_)
      if (child.block.get() == &block) return nullptr;
    for (const auto& [old, now] : calling->replaced_)
      if (old.get() == &block) return now.get();
    return nullptr;
  }

 private:
  const Block* saved_;
};

Tensor Block::operator()(const Tensor& x) {
  if (Block* other = Call::replacement_of(*this)) return (*other)(x);
  const Call scope(*this);
  const CallMode mode(*this);
  return located(*this, [&]() -> Tensor {
    if (hooks_ == nullptr && detail::CallObserver::current() == nullptr) return call(x);
    return observed(*this,
                    [&]() -> std::vector<Tensor> {
                      if (hooks_ == nullptr) return {call(x)};
                      const std::vector<Tensor> inputs = hooks_->before(*this, {x});
                      return hooks_->after(*this, inputs, {call(inputs[0])});
                    })
        .front();
  });
}

std::vector<Tensor> Block::operator()(const std::vector<Tensor>& inputs) {
  if (Block* other = Call::replacement_of(*this)) return (*other)(inputs);
  const Call scope(*this);
  const CallMode mode(*this);
  return located(*this, [&]() -> std::vector<Tensor> {
    return observed(*this, [&]() -> std::vector<Tensor> {
      if (hooks_ == nullptr) return call(inputs);
      const std::vector<Tensor> changed = hooks_->before(*this, inputs);
      return hooks_->after(*this, changed, call(changed));
    });
  });
}

Tensor Block::call(const Tensor& x) {
  if (hybrid_ && !is_watched({x})) return run_compiled({x}, true).front();
  return forward(x);
}

std::vector<Tensor> Block::call(const std::vector<Tensor>& inputs) {
  if (hybrid_ && !is_watched(inputs)) return run_compiled(inputs, false);
  return forward_all(inputs);
}

// One tensor may be answered otherwise than a list of one (a recurrent layer adds its states).
struct Block::Compiled {
  Compiled(Block& block, std::size_t plans)
      : single(
            block, [&](const std::vector<Tensor>& x) { return std::vector{block.forward(x[0])}; },
            plans),
        several(
            block, [&](const std::vector<Tensor>& x) { return block.forward_all(x); }, plans) {}
  detail::CompiledBlock single, several;
};

std::vector<Tensor> Block::run_compiled(const std::vector<Tensor>& inputs, bool single) {
  return single ? compiled_->single(inputs) : compiled_->several(inputs);
}

void Block::hybridize(bool active, std::size_t plans) {
  hybrid_ = active;
  compiled_ = active ? std::make_unique<Compiled>(*this, plans) : nullptr;
}

void Block::register_child(std::string name, BlockPtr child) {
  check_name("child", name, child_names_.contains(name));
  if (child == nullptr || child.get() == this)
    throw InvalidArgument("block: child '{}' is {}", name, child ? "the block itself" : "null");
  if (detail::contains(*child, *this))
    throw InvalidArgument("block: child '{}' is {}, which contains the block", name,
                          child->description());
  for (const NamedParameter& named : child->parameters())
    if (named.parameter.name() == named.name) named.parameter.set_name(name + "." + named.name);
  child_names_.insert(name);
  children_.push_back({std::move(name), std::move(child)});
}

Parameter Block::add_parameter(std::string name, const Shape& shape, ParameterOptions options) {
  const bool taken = std::any_of(own_.begin(), own_.end(),
                                 [&](const NamedParameter& other) { return other.name == name; });
  check_name("parameter", name, taken);
  const Parameter parameter(shape, std::move(options));
  parameter.set_name(name);
  own_.push_back({std::move(name), parameter});
  return parameter;
}

std::vector<NamedParameter> Block::parameters() const {
  std::vector<NamedParameter> all;
  std::set<const void*> seen;
  collect(*this, own_, "", seen, all);
  return all;
}

std::vector<NamedParameter> Block::parameters(const std::string& pattern) const {
  std::vector<NamedParameter> chosen;
  try {
    const std::regex expression(pattern);
    for (NamedParameter& named : parameters())
      if (std::regex_search(named.name, expression)) chosen.push_back(std::move(named));
  } catch (const std::regex_error& error) {
    throw InvalidArgument("parameters: '{}' is no regular expression: {}", pattern, error.what());
  }
  return chosen;
}

Parameter Block::parameter(const std::string& name) const {
  const std::vector<NamedParameter> all = parameters();
  for (const NamedParameter& named : all)
    if (named.name == name) return named.parameter;
  throw NotFound("parameter: there is no '{}' (there are: {})", name, names_of(all));
}

void Block::initialize(const Initializer& init, std::uint64_t seed, bool force) {
  for (const NamedParameter& named : parameters())
    named.parameter.initialize(named.name, init, seed, force);
}

void Block::complete_shapes(const std::vector<TensorInfo>& inputs) {
  nn::complete_shapes([&](const std::vector<Tensor>& x) { return (*this)(x); }, inputs);
}

void Block::cast(DType dtype) {
  for (const NamedParameter& named : parameters())
    if (is_floating(named.parameter.dtype())) named.parameter.cast(dtype);
}

void Block::freeze() {
  for (const NamedParameter& named : parameters()) named.parameter.set_trainable(false);
}

void Block::unfreeze() {
  for (const NamedParameter& named : parameters()) named.parameter.set_trainable(true);
}

Block::State Block::state() const {
  return {this, mode_, hooks_ == nullptr ? 0 : hooks_->version()};
}

std::vector<Block::State> Block::states() const {
  std::vector<State> states;
  collect_states(*this, states);
  return states;
}

detail::Hooks& Block::hooks() {
  if (hooks_ == nullptr) hooks_ = std::make_shared<detail::Hooks>();
  return *hooks_;
}

HookHandle Block::register_forward_pre_hook(ForwardPreHook hook) {
  const std::uint64_t id = hooks().add(std::move(hook));
  return {hooks_, id};
}

HookHandle Block::register_forward_hook(ForwardHook hook) {
  const std::uint64_t id = hooks().add(std::move(hook));
  return {hooks_, id};
}

void Block::share_parameters(const Block& other) {
  const std::vector<NamedParameter> mine = parameters(), theirs = other.parameters();
  const auto named = [](const NamedParameter& a, const NamedParameter& b) {
    return a.name == b.name;
  };
  if (!std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), named))
    throw InvalidArgument("share_parameters: this block has {}; the other has {}", names_of(mine),
                          names_of(theirs));
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i].parameter.check_can_share(theirs[i].parameter);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i].parameter.share(theirs[i].parameter);
}

void Block::apply(const std::function<void(Block&)>& function) {
  for (const Child& child : children_) child.block->apply(function);
  function(*this);
}

Sequential::Sequential(std::vector<BlockPtr> blocks) {
  for (BlockPtr& block : blocks) add(std::move(block));
}

Sequential& Sequential::add(BlockPtr block) {
  add_child(std::to_string(size()), std::move(block));
  return *this;
}

Block& Sequential::operator[](std::size_t index) const {
  if (index >= size())
    throw InvalidArgument("sequential: index {} is out of range for {} blocks", index, size());
  return *children()[index].block;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const Child& child : children()) y = (*child.block)(y);
  return y;
}

}  // namespace lockstep::nn
