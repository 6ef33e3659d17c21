// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/graph/passes/occupied_memory.h"
#include "lockstep/graph/passes/passes.h"
#include "lockstep/tensor/alignment.h"

namespace lockstep::passes {
namespace {

Buffer& buffer_of(Program& program, const Operand& operand) {
  return program.buffers[static_cast<std::size_t>(operand.buffer)];
}

void extend(Buffer& buffer, std::int32_t step) {
  if (buffer.first_step < 0) buffer.first_step = step;
  buffer.last_step = step;
}

void find_lifetimes(Program& program) {
  for (Buffer& buffer : program.buffers) buffer.first_step = buffer.last_step = -1;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const auto now = static_cast<std::int32_t>(s);
    Step& step = program.steps[s];
    for (const Operand& operand : step.inputs) extend(buffer_of(program, operand), now);
    for (const Operand& operand : step.outputs) extend(buffer_of(program, operand), now);
    if (step.scratch >= 0) extend(program.buffers[static_cast<std::size_t>(step.scratch)], now);
  }
}

bool covers(const Program& program, const Operand& operand) {
  const Buffer& buffer = program.buffers[static_cast<std::size_t>(operand.buffer)];
  return buffer.kind == BufferKind::arena && operand.byte_offset == 0 &&
         is_contiguous(operand.shape, operand.strides) &&
         buffer.bytes == static_cast<std::size_t>(operand.shape.numel()) * item_size(operand.dtype);
}

// The steps that name a buffer, in order.
using Uses = std::vector<std::vector<std::size_t>>;

Uses find_uses(const Program& program) {
  Uses uses(program.buffers.size());
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    for (const auto* operands : {&program.steps[s].inputs, &program.steps[s].outputs})
      for (const Operand& operand : *operands)
        uses[static_cast<std::size_t>(operand.buffer)].push_back(s);
  return uses;
}

// From step `from_step` on, `from` is `to`.
void replace_buffer(Program& program, Uses& uses, std::size_t from_step, std::int32_t from,
                    std::int32_t to) {
  std::vector<std::size_t>& moved = uses[static_cast<std::size_t>(from)];
  const auto begin = std::lower_bound(moved.begin(), moved.end(), from_step);
  for (auto s = begin; s != moved.end(); ++s)
    for (auto* operands : {&program.steps[*s].inputs, &program.steps[*s].outputs})
      for (Operand& operand : *operands)
        if (operand.buffer == from) operand.buffer = to;
  std::vector<std::size_t>& target = uses[static_cast<std::size_t>(to)];
  target.insert(target.end(), begin, moved.end());
  moved.erase(begin, moved.end());
}

// True when the step may write its output over this input: element lies on element, the input dies
// here, and no other operand is a different window on its buffer.
bool may_overwrite(Program& program, std::size_t s, const Operand& input, const Operand& output) {
  const Step& step = program.steps[s];
  const Buffer& dying = buffer_of(program, input);
  if (dying.last_step != static_cast<std::int32_t>(s) || !(input.shape == output.shape) ||
      item_size(input.dtype) != item_size(output.dtype))
    return false;
  const auto harmless = [&](const Operand& other) {
    return other.buffer != input.buffer || covers(program, other);
  };
  return covers(program, input) && std::all_of(step.inputs.begin(), step.inputs.end(), harmless) &&
         std::none_of(step.outputs.begin(), step.outputs.end(),
                      [&](const Operand& o) { return o.buffer == input.buffer; });
}

// An element-wise step writes over an input that dies there.
void share_dying_inputs(Program& program) {
  Uses uses = find_uses(program);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    if (!program.steps[s].may_overwrite_input) continue;
    for (Operand& output : program.steps[s].outputs) {
      if (!covers(program, output)) continue;
      const Buffer fresh = buffer_of(program, output);
      for (const Operand& input : program.steps[s].inputs) {
        if (!may_overwrite(program, s, input, output)) continue;
        buffer_of(program, input).last_step = fresh.last_step;
        replace_buffer(program, uses, s, output.buffer, input.buffer);
        break;
      }
    }
  }
}

// Largest first, each at the lowest place where nothing that lives at the same time is
// (Pisarchyk and Lee: "Efficient memory management for deep neural net inference", 2020).
void assign_offsets(Program& program) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].kind == BufferKind::arena && program.buffers[i].first_step >= 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return program.buffers[a].bytes > program.buffers[b].bytes;
  });
  OccupiedMemory occupied(program.steps.size());
  program.arena_bytes = 0;
  for (std::size_t i : order) {
    Buffer& buffer = program.buffers[i];
    const StepRange lifetime{static_cast<std::size_t>(buffer.first_step),
                             static_cast<std::size_t>(buffer.last_step) + 1};
    const std::size_t bytes = aligned(buffer.bytes);
    buffer.offset = occupied.lowest_gap(lifetime, bytes);
    occupied.add(lifetime, buffer.offset, buffer.offset + bytes);
    program.arena_bytes = std::max(program.arena_bytes, buffer.offset + bytes);
  }
}

// The prologue never runs while steps do, so its scratch is anywhere in the arena.
void place_prologue_scratch(Program& program) {
  for (const std::vector<Step>& part : program.prologue)
    for (const Step& step : part) {
      if (step.scratch < 0) continue;
      Buffer& scratch = program.buffers[static_cast<std::size_t>(step.scratch)];
      scratch.offset = 0;
      program.arena_bytes = std::max(program.arena_bytes, aligned(scratch.bytes));
    }
}

}  // namespace

void plan_memory(Program& program) {
  find_lifetimes(program);
  share_dying_inputs(program);
  find_lifetimes(program);
  assign_offsets(program);
  place_prologue_scratch(program);
}

}  // namespace lockstep::passes
