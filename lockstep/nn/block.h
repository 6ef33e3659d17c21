// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/nn/hook.h"
#include "lockstep/nn/load_report.h"
#include "lockstep/nn/parameter.h"

namespace lockstep::nn {

class Block;
using BlockPtr = std::shared_ptr<Block>;

struct NamedParameter {
  std::string name;  // "features.0.weight"
  Parameter parameter;
};

struct LoadOptions {
  bool allow_missing = false;  // parameters that the file has not keep their contents
  bool ignore_extra = false;   // names in the file that the block has not
  // Take what fits by name and shape, leave the rest as it is. Nothing at all is an error still.
  bool skip_mismatched = false;
};

// How a block computes: as its caller does (autograd::is_training), or in one mode always.
enum class Mode { inherit, train, predict };

// A piece of a model: parameters, children, and a forward function that is plain code on tensors.
// Called with real tensors it runs at once; called while tracing it records.
class Block {
 public:
  Block();
  virtual ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Override the one that fits: one tensor to one, or several to several.
  virtual Tensor forward(const Tensor& x);
  virtual std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs);
  Tensor operator()(const Tensor& x);
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

  struct Child {
    std::string name;
    BlockPtr block;
  };
  const std::vector<Child>& children() const { return children_; }
  // A descendant by its path, "layer4.1.conv2". Throws NotFound with the names there are.
  BlockPtr child(const std::string& path) const;
  // From now on `block` is called where the descendant was, and has its name: a new head, say.
  // Throws NotFound.
  void replace_child(const std::string& path, BlockPtr block);
  // Without those of the children.
  const std::vector<NamedParameter>& own_parameters() const { return own_; }
  // Own and descendants' parameters, in the order in which they were added, own ones first. One
  // that is shared appears once, under its first name.
  std::vector<NamedParameter> parameters() const;
  // Those whose name matches the regular expression.
  std::vector<NamedParameter> parameters(const std::string& pattern) const;
  // Throws NotFound with the names there are.
  Parameter parameter(const std::string& name) const;

  void initialize(const Initializer& init = init::fan_in(), std::uint64_t seed = 0,
                  bool force = false);
  // Tells shapes that are not known yet by tracing forward on inputs like these.
  void complete_shapes(const std::vector<TensorInfo>& inputs);

  // One file of named tensors: safetensors or .npz where the path ends so, else an archive
  // (io/archive.h).
  void save(const std::string& path) const;
  // Of any format in io/tensor_file.h, under our names or those that nn/foreign_names.h knows.
  // Throws InvalidArgument, before anything is changed, with a table of what fits and what does
  // not; returns that table where the options allow it.
  LoadReport load(const std::string& path, const LoadOptions& options = {});

  void cast(DType dtype);
  // Frozen parameters keep their values in training. A block whose parameters are all frozen, or
  // want no gradient (GradMode::off), is in predict mode: batch norm takes its running statistics.
  void freeze();
  void unfreeze();
  // Those whose name matches the regular expression. Throw NotFound when none does.
  void freeze(const std::string& pattern);
  void unfreeze(const std::string& pattern);
  // Of matching parameters: the learning rate and the weight decay are times these, in the trainer
  // and in loops by hand. Throws NotFound when none matches.
  void set_multipliers(const std::string& pattern, double rate, double decay = 1.0);
  // Of this block, and of those in it that have none of their own and are not frozen; `inherit`
  // takes it back. Comes before what freezing says of this block.
  void set_mode(Mode mode) { mode_ = mode; }
  Mode mode() const { return mode_; }
  // What a trace of forward is of, beside parameters: another state must be traced again.
  struct State {
    const Block* block;
    Mode mode;
    std::uint64_t hooks;  // their version
    bool operator==(const State&) const = default;
  };
  State state() const;
  // Its own and its descendants', as they were added.
  std::vector<State> states() const;
  // This block's parameters become those of `other`, name by name. Throws InvalidArgument when a
  // name or shape does not fit.
  void share_parameters(const Block& other);
  // Calls `function` on every descendant, then on this block.
  void apply(const std::function<void(Block&)>& function);
  // Compiles this block's forward for each combination of input shapes, of which `plans` are kept:
  // the one that was not used for the longest time is forgotten first. While recorded or traced it
  // runs op by op. Another call forgets what was compiled.
  void hybridize(bool active = true, std::size_t plans = 32);

  // Called each time this block is, in the order in which they were added. Inside of a compiled
  // block or a training step they are traced: their ops become part of it, the rest of what they do
  // happens when it is compiled.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);

  // "Dense(128, relu)": what the block is, without its children.
  virtual std::string description() const { return "Block"; }
  // A table: layer, output shape, parameters; and the totals.
  std::string summary(const std::vector<TensorInfo>& inputs);

 protected:
  // A child that lives in this block; returns it.
  template <class B>
  std::shared_ptr<B> add_child(std::string name, std::shared_ptr<B> child) {
    register_child(std::move(name), child);
    return child;
  }
  Parameter add_parameter(std::string name, const Shape& shape, ParameterOptions options = {});

 private:
  struct Compiled;
  class Call;
  void register_child(std::string name, BlockPtr child);
  void replace_own_child(const std::string& name, BlockPtr block);
  std::vector<Tensor> run_compiled(const std::vector<Tensor>& inputs, bool single);
  Tensor call(const Tensor& x);
  std::vector<Tensor> call(const std::vector<Tensor>& inputs);
  detail::Hooks& hooks();
  std::vector<Child> children_;
  std::unordered_set<std::string> child_names_;
  std::vector<NamedParameter> own_;
  // Children that the block's code still calls, and who answers.
  std::vector<std::pair<BlockPtr, BlockPtr>> replaced_;
  Mode mode_ = Mode::inherit;
  bool hybrid_ = false;
  std::unique_ptr<Compiled> compiled_;
  std::shared_ptr<detail::Hooks> hooks_;  // null while there were none
};

// Blocks one after the other; children are named "0", "1", ...
class Sequential : public Block {
 public:
  Sequential() = default;
  explicit Sequential(std::vector<BlockPtr> blocks);
  Sequential& add(BlockPtr block);
  std::size_t size() const { return children().size(); }
  Block& operator[](std::size_t index) const;
  Tensor forward(const Tensor& x) override;
  std::string description() const override { return "Sequential"; }
};

// sequential(dense(128, {.activation = "relu"}), dense(10))
template <class... B>
std::shared_ptr<Sequential> sequential(std::shared_ptr<B>... blocks) {
  return std::make_shared<Sequential>(std::vector<BlockPtr>{std::move(blocks)...});
}

}  // namespace lockstep::nn
