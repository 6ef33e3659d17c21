// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace lockstep::bench {

// Sorted times of single calls, in microseconds, each after a call to `prepare`.
template <class P, class F>
std::vector<double> time_calls(std::size_t calls, const P& prepare, const F& call) {
  using Clock = std::chrono::steady_clock;
  for (std::size_t i = 0; i < calls / 10 + 1; ++i) call();
  std::vector<double> micros;
  for (std::size_t i = 0; i < calls; ++i) {
    prepare();
    const auto begin = Clock::now();
    call();
    const std::chrono::duration<double, std::micro> spent = Clock::now() - begin;
    micros.push_back(spent.count());
  }
  std::sort(micros.begin(), micros.end());
  return micros;
}

template <class F>
std::vector<double> time_calls(std::size_t calls, const F& call) {
  return time_calls(
      calls, [] {}, call);
}

// Of that size.
inline std::size_t calls_for(std::size_t bytes, bool quick) {
  const std::size_t most = quick ? 100 : 1000, least = quick ? 4 : 12;
  return std::clamp<std::size_t>((quick ? 16u : 256u) * 1024 * 1024 / bytes, least, most);
}

// Of copies on one core.
inline std::vector<double> time_memcpy(std::size_t bytes, bool quick) {
  std::vector<float> from(bytes / sizeof(float), 1.f), to(from.size());
  return time_calls(calls_for(bytes, quick), [&] {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy is wanted
  });
}

}  // namespace lockstep::bench
