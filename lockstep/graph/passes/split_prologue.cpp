// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "lockstep/graph/passes/passes.h"

namespace lockstep::passes {
namespace {

Buffer& buffer_of(Program& program, const Operand& operand) {
  return program.buffers[static_cast<std::size_t>(operand.buffer)];
}

bool is_lasting(BufferKind kind) {
  return kind == BufferKind::state || kind == BufferKind::constant || kind == BufferKind::derived;
}

// What is kept for good should not be much larger than what it is made of: an expansion is cheaper
// made again.
bool is_worth_keeping(Program& program, const Step& step) {
  std::size_t read = 0, made = 0;
  for (const Operand& operand : step.inputs) read += buffer_of(program, operand).bytes;
  for (const Operand& operand : step.outputs) made += buffer_of(program, operand).bytes;
  return made <= 4 * read;
}

bool depends_on_states_alone(Program& program, const Step& step) {
  const auto lasting = [&](const Operand& o) { return is_lasting(buffer_of(program, o).kind); };
  const auto in_arena = [&](const Operand& o) {
    return buffer_of(program, o).kind == BufferKind::arena;
  };
  return step.delivery < 0 && std::all_of(step.inputs.begin(), step.inputs.end(), lasting) &&
         std::all_of(step.outputs.begin(), step.outputs.end(), in_arena) &&
         is_worth_keeping(program, step);
}

// The part whose steps made something that this step reads; parts that meet here become one.
std::size_t part_of(Program& program, const Step& step) {
  std::vector<std::vector<Step>>& parts = program.prologue;
  const auto feeds = [&](const std::vector<Step>& part) {
    for (const Step& earlier : part)
      for (const Operand& made : earlier.outputs)
        for (const Operand& read : step.inputs)
          if (made.buffer == read.buffer) return true;
    return false;
  };
  const auto first = std::find_if(parts.begin(), parts.end(), feeds);
  if (first == parts.end()) {
    parts.emplace_back();
    return parts.size() - 1;
  }
  for (auto other = first + 1; other != parts.end();) {
    if (!feeds(*other)) {
      ++other;
      continue;
    }
    first->insert(first->end(), other->begin(), other->end());
    other = parts.erase(other);
  }
  return static_cast<std::size_t>(first - parts.begin());
}

}  // namespace

void split_prologue(Program& program) {
  std::vector<Step> body;
  for (Step& step : program.steps) {
    if (!depends_on_states_alone(program, step)) {
      body.push_back(std::move(step));
      continue;
    }
    for (const Operand& operand : step.outputs)
      buffer_of(program, operand).kind = BufferKind::derived;
    program.prologue[part_of(program, step)].push_back(std::move(step));
  }
  program.steps = std::move(body);
  std::size_t count = 0;
  for (Buffer& buffer : program.buffers)
    if (buffer.kind == BufferKind::derived) buffer.index = count++;
}

}  // namespace lockstep::passes
