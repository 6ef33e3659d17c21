// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

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
  return step.delivery < 0 && !step.meets &&
         std::all_of(step.inputs.begin(), step.inputs.end(), lasting) &&
         std::all_of(step.outputs.begin(), step.outputs.end(), in_arena) &&
         is_worth_keeping(program, step);
}

// Which steps of the prologue belong together: those of which one makes what another reads.
class Parts {
 public:
  explicit Parts(std::size_t buffers) : part_of_buffer_(buffers, kNone) {}

  // Returns the step's part; parts that meet in it become one.
  std::size_t add(const Step& step) {
    std::size_t part = parent_.size();
    parent_.push_back(part);
    for (const Operand& read : step.inputs) {
      const std::size_t maker = part_of_buffer_[static_cast<std::size_t>(read.buffer)];
      if (maker == kNone) continue;
      const auto [first, other] = std::minmax({root(maker), root(part)});
      parent_[other] = part = first;
    }
    for (const Operand& made : step.outputs)
      part_of_buffer_[static_cast<std::size_t>(made.buffer)] = part;
    return part;
  }

  std::size_t root(std::size_t part) {
    while (parent_[part] != part) part = parent_[part] = parent_[parent_[part]];
    return part;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> parent_;          // a part that was merged: the one that it went to
  std::vector<std::size_t> part_of_buffer_;  // that makes it
};

}  // namespace

void split_prologue(Program& program) {
  std::vector<Step> body, prologue;
  std::size_t first_part = 0, second_part = 0;
  std::vector<std::size_t> part_of_step;
  Parts parts(program.buffers.size());
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    Step& step = program.steps[s];
    if (!depends_on_states_alone(program, step)) {
      if (s < program.first_part) ++first_part;
      if (s < program.second_part) ++second_part;
      body.push_back(std::move(step));
      continue;
    }
    for (const Operand& operand : step.outputs)
      buffer_of(program, operand).kind = BufferKind::derived;
    part_of_step.push_back(parts.add(step));
    prologue.push_back(std::move(step));
  }
  program.steps = std::move(body);
  program.first_part = first_part;
  program.second_part = second_part;
  std::vector<std::vector<Step>> by_root(prologue.size());
  for (std::size_t s = 0; s < prologue.size(); ++s)
    by_root[parts.root(part_of_step[s])].push_back(std::move(prologue[s]));
  for (std::vector<Step>& part : by_root)
    if (!part.empty()) program.prologue.push_back(std::move(part));
  std::size_t count = 0;
  for (Buffer& buffer : program.buffers)
    if (buffer.kind == BufferKind::derived) buffer.index = count++;
}

}  // namespace lockstep::passes
