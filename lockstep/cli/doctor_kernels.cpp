// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/doctor_kernels.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/process.h"
#include "lockstep/ops/instruction_set.h"
#include "lockstep/ops/ops.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kPatience{60};  // for a kernel that hangs
constexpr std::int64_t kChannels = 32;

// Of ones, so that every sum is a small integer: exact in each type and order.
void check_kernels(DType dtype) {
  const Tensor image = ones({2, kChannels, 8, 8}, dtype);
  const Tensor weight = ones({kChannels, kChannels, 3, 3}, dtype);
  const Tensor convolved = cast(conv(image, weight, {}, {}), DType::float32);
  if (convolved.to_vector<float>() !=
      std::vector<float>(static_cast<std::size_t>(convolved.numel()), kChannels * 9.0F))
    throw InternalError("a convolution is wrong");
  const Tensor matrix = ones({kChannels, kChannels}, dtype);
  const Tensor product = cast(matmul(matrix, matrix), DType::float32);
  if (product.to_vector<float>() !=
      std::vector<float>(static_cast<std::size_t>(product.numel()), kChannels * 1.0F))
    throw InternalError("a matrix product is wrong");
}

int run_trial(InstructionSet set, const std::function<void(InstructionSet)>& kernel) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // Libraries of networks print where they are when such a signal comes.
  for (int number : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) std::signal(number, SIG_DFL);
  kernel(set);  // wrong values are an exception
  return 0;
}

std::string failure_of(const std::optional<ExitStatus>& status) {
  if (!status) return fmt::format("did not end within {} s", kPatience.count());
  if (status->signal != 0) return fmt::format("ended by SIG{}", ::sigabbrev_np(status->signal));
  return status->code == 0 ? "" : "computes wrong values";
}

KernelTrial try_one(InstructionSet set, const std::function<void(InstructionSet)>& kernel) {
  try {
    Process child =
        Process::fork([&] { return run_trial(set, kernel); }, {.death_signal = SIGKILL});
    return {set, failure_of(child.wait(kPatience))};
  } catch (const IoError& error) {
    return {set, fmt::format("cannot be tried: {}", error.what())};
  }
}

}  // namespace

void run_kernels_of(InstructionSet set) {
  limit_instruction_set(set);
  check_kernels(DType::float32);
  check_kernels(DType::bfloat16);
}

std::vector<KernelTrial> try_kernels(InstructionSet best,
                                     const std::function<void(InstructionSet)>& kernel) {
  std::vector<KernelTrial> trials;
  for (InstructionSet set : instruction_sets())
    if (set <= best) trials.push_back(try_one(set, kernel));
  return trials;
}

void add_trials(cluster::HostFacts& facts, const std::vector<KernelTrial>& trials) {
  facts.instructions.clear();
  for (const KernelTrial& trial : trials) {
    std::string& list = trial.failure.empty() ? facts.instructions : facts.bad_instructions;
    list += list.empty() ? "" : (trial.failure.empty() ? " " : ", ");
    list += to_string(trial.set);
    if (!trial.failure.empty()) list += " " + trial.failure;
  }
}

}  // namespace lockstep::cli
