// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/hook.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/nn/block.h"

namespace lockstep::nn {
namespace detail {
namespace {

template <class List>
auto find(List& list, std::uint64_t id) {
  return std::find_if(list.begin(), list.end(),
                      [&](const auto& entry) { return entry.first == id; });
}

void check_count(const Block& block, const char* what, std::size_t expected, std::size_t got) {
  if (got != expected)
    throw InvalidArgument("{}: a hook gave {} {}, expected {} or none", block.description(), got,
                          what, expected);
}

}  // namespace

std::uint64_t Hooks::add(ForwardPreHook hook) {
  if (!hook) throw InvalidArgument("register_forward_pre_hook: there is no function");
  before_.emplace_back(++last_id_, std::move(hook));
  ++version_;
  return last_id_;
}

std::uint64_t Hooks::add(ForwardHook hook) {
  if (!hook) throw InvalidArgument("register_forward_hook: there is no function");
  after_.emplace_back(++last_id_, std::move(hook));
  ++version_;
  return last_id_;
}

void Hooks::remove(std::uint64_t id) {
  if (!has(id)) return;
  ++version_;
  std::erase_if(before_, [&](const auto& entry) { return entry.first == id; });
  std::erase_if(after_, [&](const auto& entry) { return entry.first == id; });
}

bool Hooks::has(std::uint64_t id) const {
  return find(before_, id) != before_.end() || find(after_, id) != after_.end();
}

// The lists are copied: a hook may remove itself, or add others, while it runs.
std::vector<Tensor> Hooks::before(Block& block, std::vector<Tensor> inputs) const {
  const auto hooks = before_;
  for (const auto& [id, hook] : hooks) {
    std::vector<Tensor> changed = hook(block, inputs);
    if (changed.empty()) continue;
    check_count(block, "inputs", inputs.size(), changed.size());
    inputs = std::move(changed);
  }
  return inputs;
}

std::vector<Tensor> Hooks::after(Block& block, const std::vector<Tensor>& inputs,
                                 std::vector<Tensor> outputs) const {
  const auto hooks = after_;
  for (const auto& [id, hook] : hooks) {
    std::vector<Tensor> changed = hook(block, inputs, outputs);
    if (changed.empty()) continue;
    check_count(block, "outputs", outputs.size(), changed.size());
    outputs = std::move(changed);
  }
  return outputs;
}

}  // namespace detail

void HookHandle::remove() {
  if (const auto hooks = hooks_.lock()) hooks->remove(id_);
}

bool HookHandle::is_attached() const {
  const auto hooks = hooks_.lock();
  return hooks != nullptr && hooks->has(id_);
}

}  // namespace lockstep::nn
