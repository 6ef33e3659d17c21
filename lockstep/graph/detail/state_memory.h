// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/graph/program.h"

namespace lockstep::detail {

// The states of a program, and of programs for other shapes that share them. A state has its home
// on the host, where it is set and read. On the host's own devices kernels work there as well;
// elsewhere they work on an image of it in the device's memory.
class StateMemory {
 public:
  explicit StateMemory(const Program& program);

  // Where kernels look.
  std::byte* state_address(std::size_t state) const;

  // The state's bytes as the last run left them. Who writes there says so: set_changed.
  std::span<std::byte> home(std::size_t state);
  void move_home(std::size_t state, std::span<std::byte> memory);
  std::size_t home_bytes(std::size_t state) const { return states_[state].bytes; }

  // The home has new contents, whole.
  void set_changed(std::size_t state);
  // Any home may have.
  void set_changed();
  // Brings what has changed to the device; the first clone that comes does it for all.
  void bring();
  // A run gives the states new values, where kernels look.
  void set_computed();

  std::uint64_t moves() const { return moves_; }
  // Grows with every change: what is derived from states is that of one version.
  std::uint64_t version() const { return version_; }
  // Of the memory that is not the caller's.
  std::size_t bytes() const;

 private:
  struct State {
    std::size_t bytes;
    std::shared_ptr<Storage> own;  // null: the home is the caller's
    std::byte* home;
    std::shared_ptr<Storage> image;  // null: kernels work at home
    bool home_is_newer = true;
    bool image_is_newer = false;
  };

  Device device_;
  std::vector<State> states_;
  std::uint64_t moves_ = 0;  // of homes to other memory
  std::atomic<std::uint64_t> version_ = 1;
  std::atomic<bool> waiting_ = false;  // some home is newer than its image
  std::mutex bringing_;
};

}  // namespace lockstep::detail
