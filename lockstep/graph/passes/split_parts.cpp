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

}  // namespace

void split_parts(Program& program, const CompileOptions& options) {
  if (options.early_outputs.empty()) return;
  const std::vector<bool> early = returned_early(program, options);
  const std::vector<bool> late = late_buffers(program, options);
  std::vector<bool> wanted(program.buffers.size(), false);
  for (std::size_t b = 0; b < wanted.size(); ++b)
    wanted[b] = program.buffers[b].kind == BufferKind::output && early[program.buffers[b].index];
  std::vector<bool> is_first(program.steps.size(), false);
  for (std::size_t s = program.steps.size(); s-- > 0;) {
    const Step& step = program.steps[s];
    is_first[s] = std::any_of(step.outputs.begin(), step.outputs.end(), [&](const Operand& made) {
      return wanted[static_cast<std::size_t>(made.buffer)];
    });
    if (!is_first[s]) continue;
    for (const Operand& read : step.inputs) {
      check(!late[static_cast<std::size_t>(read.buffer)],
            "the first part of a run reads an input that is not there yet");
      wanted[static_cast<std::size_t>(read.buffer)] = true;
    }
  }
  std::vector<Step> first, second;
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    (is_first[s] ? first : second).push_back(std::move(program.steps[s]));
  program.first_part = first.size();
  first.insert(first.end(), std::make_move_iterator(second.begin()),
               std::make_move_iterator(second.end()));
  program.steps = std::move(first);
}

}  // namespace lockstep::passes
