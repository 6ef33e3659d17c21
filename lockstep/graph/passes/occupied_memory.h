// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::passes {

// Bytes of an arena that are in use, as a union of intervals.
class ByteIntervals {
 public:
  void add(std::size_t begin, std::size_t end);
  // The lowest offset from `offset` on where `bytes` meet no interval.
  std::size_t first_gap(std::size_t offset, std::size_t bytes) const;

 private:
  struct Interval {
    std::size_t begin, end;
  };
  std::vector<Interval> all_;  // apart from each other, in order
};

// Steps [begin, end) of a program.
struct StepRange {
  std::size_t begin, end;
};

// Which bytes of an arena are in use in which steps. The steps are the leaves of a binary tree: a
// range of them is a few nodes, and each node knows what is in use in all of its steps and what in
// some. Neighbours in memory become one interval, so that a question passes over a row of buffers
// at once: placing n buffers costs about n log n, whatever lives at the same time.
class OccupiedMemory {
 public:
  explicit OccupiedMemory(std::size_t steps);
  void add(StepRange lifetime, std::size_t begin, std::size_t end);
  // The lowest offset where `bytes` are free in all steps of the range.
  std::size_t lowest_gap(StepRange lifetime, std::size_t bytes) const;

 private:
  struct Node {
    ByteIntervals whole;  // in use by what lives in all of the node's steps, and not the parent's
    ByteIntervals some;   // in use in some step of the node, as far as no parent says so
  };
  void add_at(std::size_t node, StepRange own, StepRange lifetime, std::size_t begin,
              std::size_t end);
  void collect(std::size_t node, StepRange own, StepRange lifetime,
               std::vector<const ByteIntervals*>& found) const;

  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;  // children of node i are 2 i and 2 i + 1
};

}  // namespace lockstep::passes
