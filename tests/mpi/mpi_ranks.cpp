// SPDX-License-Identifier: Apache-2.0
// Run by mpirun: each rank checks what collectives over MPI give it, and ends with 1 when it is
// wrong. With --stay-away the last rank does not come to a barrier, and the others say so.
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/transports/mpi.h"

using namespace lockstep::comm;

namespace {

void expect(bool right, const char* what) {
  if (right) return;
  fmt::print(stderr, "wrong: {}\n", what);
  std::_Exit(1);
}

std::span<std::byte> bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

void check_all_reduce(Communicator& group, Algorithm algorithm, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i % 1000) + static_cast<float>(group.rank());
  CallOptions options;
  options.algorithm = algorithm;
  group.all_reduce(bytes_of(values), Element::float32, Reduction::sum, options);
  const auto size = static_cast<float>(group.size());
  for (std::size_t i = 0; i < count; ++i)
    expect(values[i] == size * static_cast<float>(i % 1000) + size * (size - 1) / 2, "all_reduce");
}

// Sent whole, received in three pieces of other lengths.
void check_stream(Communicator& group) {
  std::vector<float> sent(500'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<float>(i);
  if (group.rank() == 0) group.send(bytes_of(sent), 1);
  if (group.rank() != 1) return;
  std::vector<float> got(sent.size());
  const auto bytes = bytes_of(got);
  group.receive(bytes.first(10), 0);
  group.receive(bytes.subspan(10, 1'500'000), 0);
  group.receive(bytes.subspan(1'500'010), 0);
  expect(got == sent, "stream");
}

// Two groups of the same ranks and the whole, at the same time; rank 0 comes to the first group's
// call when its own part of the others' is over.
void check_groups(Communicator& whole) {
  std::vector<int> ranks, reversed;
  for (int rank = 0; rank < whole.size(); ++rank) {
    ranks.push_back(rank);
    reversed.insert(reversed.begin(), rank);
  }
  const auto held = whole.split(ranks), free = whole.split(reversed);
  expect(free->rank() == whole.size() - 1 - whole.rank(), "rank in a group");
  std::jthread waiting;
  if (whole.rank() != 0)
    waiting = std::jthread([&] { check_all_reduce(*held, Algorithm::tree, 300'000); });
  for (int i = 0; i < 3; ++i) {
    check_all_reduce(*free, Algorithm::tree, 300'000);
    check_all_reduce(whole, Algorithm::ring, 1000);
  }
  if (whole.rank() == 0) check_all_reduce(*held, Algorithm::tree, 300'000);
}

int stay_away(Communicator& group) {
  CallOptions options;
  options.timeout = std::chrono::seconds(1);
  if (group.rank() == group.size() - 1) {
    std::this_thread::sleep_for(std::chrono::seconds(4));
    return 0;
  }
  try {
    group.barrier(options);
  } catch (const CommError& error) {
    fmt::print("{}: {}\n", error.kind(), error.what());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Communicator group(connect_mpi());
  for (std::size_t count : {0u, 1u, 1000u, 1'000'001u})
    for (Algorithm algorithm : {Algorithm::tree, Algorithm::ring, Algorithm::native})
      check_all_reduce(group, algorithm, count);
  check_stream(group);
  check_groups(group);
  group.barrier();
  return argc > 1 && std::strcmp(argv[1], "--stay-away") == 0 ? stay_away(group) : 0;
}
