// SPDX-License-Identifier: Apache-2.0
// What the peers of `lockstep bench comm` share: which sizes, how many calls, what is printed. The
// same as in bench/serve_comm.cpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace peers {

inline std::size_t calls_for(std::size_t bytes, bool quick) {
  const std::size_t most = quick ? 100 : 1000, least = quick ? 4 : 12;
  return std::clamp<std::size_t>((quick ? 16u : 256u) * 1024 * 1024 / bytes, least, most);
}

// all_reduce(data, count): the sum over ranks, in place. Rank 0 prints.
template <class AllReduce>
bool measure(int rank, int ranks, bool quick, const AllReduce& all_reduce) {
  for (std::size_t bytes = 8; bytes <= 64u * 1024 * 1024; bytes *= 2) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> data(count, static_cast<float>(rank + 1));
    all_reduce(data.data(), count);
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
    for (const float value : data)
      if (value != sum) return false;
    std::fill(data.begin(), data.end(), 0.f);
    const std::size_t calls = calls_for(bytes, quick);
    for (std::size_t i = 0; i < calls / 10 + 1; ++i) all_reduce(data.data(), count);
    std::vector<double> micros;
    for (std::size_t i = 0; i < calls; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      all_reduce(data.data(), count);
      const std::chrono::duration<double, std::micro> spent =
          std::chrono::steady_clock::now() - begin;
      micros.push_back(spent.count());
    }
    std::sort(micros.begin(), micros.end());
    if (rank == 0)
      std::printf(
          "{\"collective\": \"all_reduce\", \"bytes\": %zu, \"us_p50\": %.3f, \"us_p99\": "
          "%.3f}\n",
          bytes, micros[calls / 2], micros[calls * 99 / 100]);
  }
  return true;
}

}  // namespace peers
