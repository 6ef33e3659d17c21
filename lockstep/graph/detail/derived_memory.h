// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lockstep/graph/program.h"

namespace lockstep::detail {

// A value that is made of states and constants alone.
struct DerivedBlock {
  std::shared_ptr<Storage> storage;
  std::uint64_t number = 0;                // of its own, among all of a pool
  std::atomic<std::uint64_t> version = 0;  // of the states that it was made of; 0: of none yet
  // How it is made: a step, what that reads, and which of its outputs this is.
  Step step;
  std::vector<std::uint64_t> sources;
  std::size_t output = 0;
  std::vector<Tensor> constants;  // among the sources
};

// What programs for several shapes have in common: captured constants with equal contents, and what
// is derived alike. Whoever uses a thing keeps it; the pool only knows of it.
class SharedPool {
 public:
  // Constants of the program that are there already become those.
  void share_constants(Program& program);
  std::shared_ptr<DerivedBlock> block_for(const Program& program, const Step& step,
                                          std::vector<std::uint64_t> sources, std::size_t output);

 private:
  void forget_unused();
  std::unordered_multimap<std::size_t, std::weak_ptr<Storage>> constants_;  // by contents
  std::unordered_multimap<std::size_t, std::weak_ptr<DerivedBlock>> blocks_;
  std::uint64_t made_ = 0;
};

// The derived values of one program.
class DerivedMemory {
 public:
  DerivedMemory(const Program& program, SharedPool& pool);

  std::byte* address(std::size_t number) const { return blocks_[number]->storage->data(); }
  // Whether all that a part of the prologue makes is of that version of the states.
  bool is_fresh(const Program& program, std::size_t part, std::uint64_t version) const;
  void set_fresh(const Program& program, std::size_t part, std::uint64_t version);
  std::size_t bytes() const;

  std::atomic<std::uint64_t> version = 0;  // of the states, when all was fresh
  std::mutex refreshing;

 private:
  std::vector<std::shared_ptr<DerivedBlock>> blocks_;  // by number
};

}  // namespace lockstep::detail
