// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <malloc.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

#include "bench/responder.h"
#include "bench/step_bench.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/storage.h"

namespace lockstep::bench {
namespace {

constexpr int kWarmUpSteps = 3;

std::int64_t process_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  throw IoError("/proc/self/status: no field {}", field);
}

// What making the parameters left behind is no part of a step; PyTorch's side starts there too.
void forget_peak() {
  release_unused_memory();
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

struct Served {
  std::unique_ptr<StepRunner> runner;
  std::int64_t idle_bytes = 0;
  double allocations_per_step = 0;

  double window(double seconds) {
    const std::int64_t allocations = memory_stats().allocations;
    const auto start = std::chrono::steady_clock::now();
    for (int steps = 1;; ++steps) {
      runner->step();
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (spent.count() < seconds) continue;
      allocations_per_step = double(memory_stats().allocations - allocations) / steps;
      return steps * static_cast<double>(runner->batch) / spent.count();
    }
  }

  Json facts() const {
    const auto parameters = static_cast<std::int64_t>(runner->parameter_bytes);
    return {{"batch", runner->batch},
            {"flops_per_sample", runner->flops_per_sample},
            {"parameter_bytes", parameters},
            {"step_bytes", runner->step_bytes},
            {"allocations_per_step", allocations_per_step},
            {"peak_rss_bytes_above_idle", process_bytes("VmHWM") - idle_bytes - parameters}};
  }
};

void say(const Json& json) { std::cout << json.dump() << '\n' << std::flush; }

void converse(const std::string& model, const std::string& dtype) {
  Served served;
  served.idle_bytes = process_bytes("VmRSS");
  served.runner = make_step_runner(model, dtype);
  forget_peak();
  for (int i = 0; i < kWarmUpSteps; ++i) served.runner->step();
  Json ready{{"ready", model}};
  ready.update(served.facts());
  say(ready);
  for (std::string line; std::getline(std::cin, line);) {
    std::string word;
    double seconds = 1.0;
    std::istringstream(line) >> word >> seconds;
    Json answer{{"samples_per_s", served.window(seconds)}};
    answer.update(served.facts());
    say(answer);
  }
}

}  // namespace

int serve_step(const std::string& model, const std::string& dtype) {
  try {
    converse(model, dtype);
    return 0;
  } catch (const std::exception& error) {
    say({{"error", error.what()}});
    return 1;
  }
}

}  // namespace lockstep::bench
