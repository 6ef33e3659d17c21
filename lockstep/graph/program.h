// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/ops/kernel.h"

namespace lockstep {

enum class BufferKind : std::uint8_t {
  arena,     // lives inside the planned arena
  input,     // the caller's, bound at each run
  output,    // the caller's, bound at each run
  state,     // kept from run to run, in the layout the kernels like
  constant,  // part of the graph
  derived,   // made of states and constants alone, shared by all runs until a state changes
};

struct Buffer {
  BufferKind kind = BufferKind::arena;
  std::size_t bytes = 0;
  std::size_t index = 0;   // which input, output, state or constant
  std::size_t offset = 0;  // arena: where, once planned
  std::int32_t first_step = -1;
  std::int32_t last_step = -1;
};

// What a step reads or writes: a dense block in some layout, or a strided window of a plain one.
struct Operand {
  std::int32_t buffer = -1;
  std::size_t byte_offset = 0;
  Shape shape;
  Strides strides;
  DType dtype = DType::float32;
  Layout layout;
};

// One kernel call.
struct Step {
  std::string label;       // op or conversion, for people
  std::int32_t node = -1;  // -1: a conversion that the compiler added
  const KernelCandidate* direct = nullptr;
  std::shared_ptr<const PreparedKernel> prepared;
  Attrs attrs;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::int32_t scratch = -1;  // a buffer
  bool may_overwrite_input = false;
  std::int32_t delivery = -1;  // hands its input to the receiver; no kernel
  bool copies = false;         // a strided window to a dense one, and nothing else
  bool meets = false;          // the others' slices, in every run
};

// An input that is kept between runs. When an output of the graph is carried back into it, the run
// leaves the new value in the same buffer.
struct StateSlot {
  std::size_t input = 0;
  TensorInfo info;
  Layout layout;
  std::int32_t buffer = -1;
};

// A graph made ready to run: kernels chosen, layouts settled, memory planned.
struct Program {
  Device device;  // of its memory and its kernels
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<std::vector<Step>> prologue;  // parts that no other part depends on: make `derived`
  std::vector<StateSlot> states;
  std::vector<Tensor> constants;
  Infos inputs;                             // of all graph inputs, states included
  std::vector<std::int32_t> slot_of_input;  // in `states`; -1: the caller's
  std::vector<std::size_t> run_inputs;      // the caller's, in order
  Infos outputs;                            // of the outputs that are returned
  std::size_t arena_bytes = 0;
  bool changes_states = false;  // some output is carried
  std::size_t first_part = 0;   // steps of a run's first part
  std::size_t second_part = 0;  // those, and the steps of its second part

  std::string str() const;
};

// "conv {stride=[1, 1]}"
std::string call_text(const Step& step);
// The whole line, with kernel and operands.
std::string step_text(const Program& program, const Step& step);

}  // namespace lockstep
