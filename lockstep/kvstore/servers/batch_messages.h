// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/servers/wire.h"

// Several short requests to one server in one message, and their answers in one.
namespace lockstep::kvstore::wire {

// Requests of at most so many bytes of floats travel together, and so many of them at most.
inline constexpr std::size_t kLongestInBatch = 16 << 10;
inline constexpr std::size_t kMostInBatch = 1024;

struct BatchItem {
  std::uint32_t topic = 0;
  std::string message = {};
  std::uint64_t floats = 0;  // of part 1, which has those of all items, in order
  void visit(auto&& fields) { fields(topic, message, floats); }
};

struct Batch {
  std::vector<BatchItem> items = {};
  void visit(auto&& fields) { fields(items); }
};

struct Outcome {
  bool failed = false;
  std::string message = {};  // of the answer, or why there is none
  std::uint64_t floats = 0;
  void visit(auto&& fields) { fields(failed, message, floats); }
};

struct BatchAnswer {
  std::vector<Outcome> outcomes = {};
  void visit(auto&& fields) { fields(outcomes); }
};

}  // namespace lockstep::kvstore::wire
