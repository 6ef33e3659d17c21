// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "lockstep/graph/passes/passes.h"

namespace lockstep::passes {
namespace {

// Numbers of returned outputs and of a run's inputs, by number of all.
std::vector<bool> returned_early(const Program& program, const CompileOptions& options) {
  const auto leaves_otherwise = [&](std::size_t output) {
    const auto is_it = [&](const auto& exit) { return exit.output == output; };
    return std::any_of(options.deliveries.begin(), options.deliveries.end(), is_it) ||
           std::any_of(options.carries.begin(), options.carries.end(), is_it);
  };
  std::vector<bool> early;
  for (std::size_t output = 0; early.size() < program.outputs.size(); ++output)
    if (!leaves_otherwise(output))
      early.push_back(
          std::count(options.early_outputs.begin(), options.early_outputs.end(), output) > 0);
  return early;
}

std::vector<bool> late_buffers(const Program& program, const CompileOptions& options) {
  std::vector<bool> late(program.buffers.size(), false);
  for (std::size_t b = 0; b < late.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.kind != BufferKind::input) continue;
    late[b] = std::count(options.late_inputs.begin(), options.late_inputs.end(),
                         program.run_inputs[buffer.index]) > 0;
  }
  return late;
}

// Steps that make what is wanted, and what they read.
std::vector<bool> steps_for(const Program& program, std::vector<bool> wanted,
                            const std::vector<bool>& late) {
  std::vector<bool> needed(program.steps.size(), false);
  for (std::size_t s = program.steps.size(); s-- > 0;) {
    const Step& step = program.steps[s];
    needed[s] = std::any_of(step.outputs.begin(), step.outputs.end(), [&](const Operand& made) {
      return wanted[static_cast<std::size_t>(made.buffer)];
    });
    if (!needed[s]) continue;
    for (const Operand& read : step.inputs) {
      check(!late[static_cast<std::size_t>(read.buffer)],
            "the first part of a run reads an input that is not there yet");
      wanted[static_cast<std::size_t>(read.buffer)] = true;
    }
  }
  return needed;
}

// The chosen ones first; all keep their order otherwise.
std::size_t move_to_front(std::vector<Step>& steps, const std::vector<bool>& chosen,
                          std::size_t begin = 0) {
  std::vector<Step> first, second;
  for (std::size_t s = begin; s < steps.size(); ++s)
    (chosen[s] ? first : second).push_back(std::move(steps[s]));
  const std::size_t end = begin + first.size();
  std::move(first.begin(), first.end(), steps.begin() + static_cast<std::ptrdiff_t>(begin));
  std::move(second.begin(), second.end(), steps.begin() + static_cast<std::ptrdiff_t>(end));
  return end;
}

}  // namespace

void split_parts(Program& program, const CompileOptions& options) {
  if (options.early_outputs.empty() && !options.deliveries_last) return;
  const std::vector<bool> early = returned_early(program, options);
  const std::size_t count = program.buffers.size();
  std::vector<bool> returned(count, false), wanted(count, false);
  for (std::size_t b = 0; b < count; ++b) {
    returned[b] = program.buffers[b].kind == BufferKind::output;
    wanted[b] = returned[b] && early[program.buffers[b].index];
  }
  program.first_part = move_to_front(
      program.steps, steps_for(program, std::move(wanted), late_buffers(program, options)));
  program.second_part = program.first_part;
  if (!options.deliveries_last) return;
  program.second_part = move_to_front(
      program.steps, steps_for(program, std::move(returned), std::vector<bool>(count, false)),
      program.first_part);
}

}  // namespace lockstep::passes
