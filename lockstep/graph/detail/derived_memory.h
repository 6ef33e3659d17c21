// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
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
  std::mutex making;
};

// What programs for several shapes have in common: captured constants with equal contents, and what
// is derived alike. Whoever uses a thing keeps it; the pool only knows of it. Threads may use it at
// once.
class SharedPool {
 public:
  // Constants of the program that are there already become those.
  void share_constants(Program& program);
  std::shared_ptr<DerivedBlock> block_for(const Program& program, const Step& step,
                                          std::vector<std::uint64_t> sources, std::size_t output);

 private:
  void forget_unused();
  std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::weak_ptr<Storage>> constants_;  // by contents
  std::unordered_multimap<std::size_t, std::weak_ptr<DerivedBlock>> blocks_;
  std::uint64_t made_ = 0;
};

// The derived values of one program. Programs for other shapes may have the same blocks.
class DerivedMemory {
 public:
  // Steps of the prologue that make the same become one, and their parts with them.
  DerivedMemory(Program& program, SharedPool& pool);

  std::byte* address(std::size_t number) const { return blocks_[number]->storage->data(); }
  // Calls run(step) for those steps of a part of the prologue whose outputs are not of that version
  // of the states. A block is made by one thread at a time, and once: others may read it then.
  void make(const Program& program, std::size_t part, std::uint64_t version,
            const std::function<void(const Step&)>& run);
  std::size_t bytes() const;

  std::atomic<std::uint64_t> version = 0;  // of the states, when all was fresh
  std::mutex refreshing;

 private:
  using Blocks = std::vector<DerivedBlock*>;
  Blocks made_by(const Program& program, const Step& step) const;
  Blocks made_by(const Program& program, const std::vector<Step>& part) const;
  void join_parts(Program& program) const;

  std::vector<std::shared_ptr<DerivedBlock>> blocks_;  // by number
};

}  // namespace lockstep::detail
