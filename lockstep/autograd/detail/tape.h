// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/autograd/autograd.h"
#include "lockstep/autograd/recording.h"
#include "lockstep/ops/op.h"

namespace lockstep::autograd {
class TapeNode;
}

namespace lockstep {

// What attach_grad made a leaf.
struct TapeLeaf {
  TensorInfo info;
  bool symbolic = false;  // it stands for a graph value
};

// Where a tensor's gradient goes: back to the node that made the tensor or, without a node, into
// the leaf that this entry is.
struct TapeEntry {
  std::shared_ptr<autograd::TapeNode> node = nullptr;
  std::size_t output = 0;
  autograd::GradMode mode = autograd::GradMode::write;
  Tensor gradient = {};
  bool flat = false;  // a step function of what came before: its derivative is zero
  std::unique_ptr<TapeLeaf> leaf = nullptr;
};

}  // namespace lockstep

namespace lockstep::autograd {

using Edge = std::shared_ptr<TapeEntry>;

// What a node needs to send gradients back. Neither op nor function: they pass unchanged.
struct TapeRecord {
  const OpDef* op = nullptr;
  std::shared_ptr<Function> function = nullptr;
  Attrs attrs = {};
  std::vector<Tensor> inputs = {};
  std::vector<Edge> edges = {};      // one for each input, null where no gradient is wanted
  std::vector<Tensor> outputs = {};  // without history: a node that held itself would never die
  bool flat = false;                 // nothing goes back; edges tell which leaves get zeros
};

// One recorded call.
class TapeNode {
 public:
  explicit TapeNode(TapeRecord record);
  ~TapeNode() { free(); }
  TapeNode(const TapeNode&) = delete;
  TapeNode& operator=(const TapeNode&) = delete;

  // Above the ids of all nodes it depends on, and in order of recording on one thread.
  std::uint64_t id() const { return id_; }
  std::string_view name() const { return name_; }
  std::size_t output_count() const { return output_count_; }
  bool is_freed() const { return record_ == nullptr; }
  const TapeRecord& record() const { return *record_; }
  // Drops the record without recursion, however long the chain that hangs on it.
  void free();
  // Freed, and what it made is constant from now on.
  void forget();
  bool is_forgotten() const { return forgotten_; }

 private:
  std::unique_ptr<TapeRecord> record_;
  std::uint64_t id_;
  std::string_view name_;
  std::size_t output_count_;
  bool forgotten_ = false;
};

// Where the tensor's gradient goes, or null where it has none, or none any more.
const Edge& live_entry(const Tensor& x);

// Whether the tape knows where one of them came from.
bool has_history(std::span<const Tensor> inputs);
// The same value behind a handle that the tape does not know. Unlike detach() it leaves what a
// tracer knows.
Tensor without_entry(const Tensor& x);
// Makes a node of the call and the outputs its results.
void record_call(TapeRecord record, std::span<const Tensor> outputs);
// The same memory as `x` behind a node of its own that passes gradients on to x.
Tensor alias(const Tensor& x);

}  // namespace lockstep::autograd
