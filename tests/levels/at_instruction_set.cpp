// SPDX-License-Identifier: Apache-2.0
// at_instruction_set SET COMMAND...: runs the command with LOCKSTEP_ISA=SET where that is less than
// the processor's best. Else it says why it does not, with the status that ctest counts as skipped.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "lockstep/base/processor.h"

namespace {

constexpr int kSkipped = 77;

int run(const char* name, char* const* command) {
  using namespace lockstep;
  const InstructionSet set = parse_instruction_set(name);
  const InstructionSet best = usable_instruction_set(ask_processor());
  if (set > best) {
    fmt::print("skipped: this processor has {} at most\n", to_string(best));
    return kSkipped;
  }
  if (set == best) {
    fmt::print("skipped: {} is this processor's best, which the other tests use\n", name);
    return kSkipped;
  }
  ::setenv("LOCKSTEP_ISA", name, 1);
  ::execvp(command[0], command);
  fmt::print("{}: cannot be started\n", command[0]);
  return 127;
}

}  // namespace

int main(int count, char** words) try {
  if (count >= 3) return run(words[1], words + 2);
  fmt::print("usage: at_instruction_set SET COMMAND...\n");
  return 2;
} catch (const std::exception& error) {
  fmt::print("{}\n", error.what());
  return 2;
}
