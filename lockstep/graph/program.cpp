// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/program.h"

namespace lockstep {
namespace {

std::string operand_text(const Program& program, const Operand& operand) {
  const Buffer& buffer = program.buffers[static_cast<std::size_t>(operand.buffer)];
  static constexpr const char* kKinds[] = {"@",      "input ",    "output ",
                                           "state ", "constant ", "derived "};
  const std::size_t place = buffer.kind == BufferKind::arena ? buffer.offset : buffer.index;
  return fmt::format("{}{} {}{} {}", kKinds[static_cast<int>(buffer.kind)], place,
                     name_of(operand.dtype), operand.shape.str(), operand.layout.str());
}

}  // namespace

std::string call_text(const Step& step) {
  const std::string attrs = step.attrs.str();
  return attrs.empty() ? step.label : step.label + " {" + attrs + "}";
}

std::string step_text(const Program& program, const Step& step) {
  std::string line = call_text(step);
  if (step.delivery >= 0)
    return line + fmt::format(" {}: {}", step.delivery, operand_text(program, step.inputs[0]));
  line += " by " + (step.prepared ? step.prepared->name : std::string(step.direct->name)) + ":";
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    line += (i ? ", " : " ") + operand_text(program, step.inputs[i]);
  line += " ->";
  for (std::size_t i = 0; i < step.outputs.size(); ++i)
    line += (i ? ", " : " ") + operand_text(program, step.outputs[i]);
  return line;
}

std::string Program::str() const {
  std::string text;
  for (const std::vector<Step>& part : prologue)
    for (const Step& step : part) text += "before: " + step_text(*this, step) + "\n";
  for (const Step& step : steps) text += step_text(*this, step) + "\n";
  return text + fmt::format("arena: {} bytes\n", arena_bytes);
}

}  // namespace lockstep
