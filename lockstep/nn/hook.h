// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::nn {

class Block;

// Called with a block's inputs before its forward, or with its outputs after it. What they return
// takes the place of the inputs or outputs, of which there must be as many; nothing: all stays as
// it is.
using ForwardPreHook =
    std::function<std::vector<Tensor>(Block& block, const std::vector<Tensor>& inputs)>;
using ForwardHook = std::function<std::vector<Tensor>(
    Block& block, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs)>;

namespace detail {

// A block's hooks, in the order in which they were added.
class Hooks {
 public:
  std::uint64_t add(ForwardPreHook hook);
  std::uint64_t add(ForwardHook hook);
  void remove(std::uint64_t id);
  bool has(std::uint64_t id) const;
  // Grows with every change, so that what was traced before is known to be old.
  std::uint64_t version() const { return version_; }

  std::vector<Tensor> before(Block& block, std::vector<Tensor> inputs) const;
  std::vector<Tensor> after(Block& block, const std::vector<Tensor>& inputs,
                            std::vector<Tensor> outputs) const;

 private:
  std::vector<std::pair<std::uint64_t, ForwardPreHook>> before_;
  std::vector<std::pair<std::uint64_t, ForwardHook>> after_;
  std::uint64_t last_id_ = 0, version_ = 0;
};

}  // namespace detail

// Takes a hook back. May outlive the block; dropping it leaves the hook where it is.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<detail::Hooks> hooks, std::uint64_t id)
      : hooks_(std::move(hooks)), id_(id) {}
  void remove();
  bool is_attached() const;

 private:
  std::weak_ptr<detail::Hooks> hooks_;
  std::uint64_t id_ = 0;
};

}  // namespace lockstep::nn
