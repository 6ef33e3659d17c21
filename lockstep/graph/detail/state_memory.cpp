// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/detail/state_memory.h"

#include <cstring>

#include "lockstep/tensor/backend.h"

namespace lockstep::detail {
namespace {

std::shared_ptr<Storage> zeros(std::size_t bytes, const Device& device) {
  return Tensor::zeros({static_cast<std::int64_t>(bytes)}, DType::uint8, device).storage();
}

}  // namespace

StateMemory::StateMemory(const Program& program)
    : device_(program.device), waiting_(!device_.is_host()) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind != BufferKind::state) continue;
    const std::shared_ptr<Storage> own = zeros(buffer.bytes, {});
    states_.push_back({buffer.bytes, own, own->data(), nullptr});
    if (!device_.is_host()) states_.back().image = Storage::allocate(buffer.bytes, device_);
  }
}

std::byte* StateMemory::state_address(std::size_t state) const {
  const State& its = states_[state];
  return its.image ? its.image->data() : its.home;
}

std::span<std::byte> StateMemory::home(std::size_t state) {
  State& its = states_[state];
  const std::span<std::byte> bytes(its.home, its.bytes);
  if (its.image_is_newer) {
    device_.backend->copy_out(its.image->data(), bytes).wait();
    its.image_is_newer = false;
  }
  return bytes;
}

void StateMemory::move_home(std::size_t state, std::span<std::byte> memory) {
  State& its = states_[state];
  its.own = nullptr;
  its.home = memory.data();
  ++moves_;
  set_changed(state);
}

void StateMemory::set_changed(std::size_t state) {
  ++version_;
  states_[state].home_is_newer = true;
  states_[state].image_is_newer = false;
  waiting_ = !device_.is_host();
}

void StateMemory::set_changed() {
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!states_[i].image_is_newer) set_changed(i);
}

void StateMemory::bring() {
  if (!waiting_) return;
  const std::lock_guard lock(bringing_);
  if (!waiting_) return;
  Event last;
  for (const State& its : states_)
    if (its.home_is_newer)
      last = device_.backend->copy_in({its.home, its.bytes}, its.image->data());
  last.wait();
  for (State& its : states_) its.home_is_newer = false;
  waiting_ = false;
}

void StateMemory::set_computed() {
  ++version_;
  if (device_.is_host()) return;
  for (State& its : states_) its.image_is_newer = true;
}

std::size_t StateMemory::bytes() const {
  std::size_t bytes = 0;
  for (const State& state : states_) {
    bytes += state.own ? state.bytes : 0;
    bytes += state.image ? state.bytes : 0;
  }
  return bytes;
}

}  // namespace lockstep::detail
