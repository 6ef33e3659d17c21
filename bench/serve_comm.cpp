// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

#include "bench/call_times.h"
#include "bench/comm_bench.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/hmac.h"
#include "lockstep/base/network_pair.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/process.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/transports/shm.h"

namespace lockstep::bench {
namespace {

using comm::Communicator;
using comm::Element;
using comm::Reduction;
using Floats = std::span<float>;
constexpr std::chrono::minutes kDeadline{10};  // of all measurements

std::span<std::byte> bytes_of(Floats values) { return std::as_writable_bytes(values); }

// One collective on so many bytes: nccl-tests' meaning of the size, what a call does, and what
// comes out of it.
struct Trial {
  Communicator& comm;
  comm::CallOptions options;
  Floats in, out;

  std::size_t ranks() const { return static_cast<std::size_t>(comm.size()); }
  std::size_t part() const { return in.size() / ranks(); }
  std::span<std::byte> part_of(Floats values) const {
    return bytes_of(values).first(part() * sizeof(float));
  }
};

using Run = void (*)(Trial&);
using Expected = float (*)(int rank, int ranks, std::size_t i, std::size_t count);

struct Collective {
  const char* name;
  bool in_place;  // the result is where the data was
  bool has_parts;
  bool at_root;  // only rank 0 has the result
  Run run;
  Expected expected;
  bool shared = false;  // on memory from allocate()
};

// What rank r has at place i; small whole numbers, whose sums are exact.
float value(int rank, std::size_t i) {
  return static_cast<float>(rank + 1 + static_cast<int>(i % 5));
}

float sum(int ranks, std::size_t i) {
  float all = 0;
  for (int rank = 0; rank < ranks; ++rank) all += value(rank, i);
  return all;
}

const Collective kCollectives[] = {
    {"all_reduce", true, false, false,
     [](Trial& t) {
       t.comm.all_reduce(bytes_of(t.in), Element::float32, Reduction::sum, t.options);
     },
     [](int, int ranks, std::size_t i, std::size_t) { return sum(ranks, i); }},
    {"all_reduce_shared", true, false, false,
     [](Trial& t) {
       t.comm.all_reduce(bytes_of(t.in), Element::float32, Reduction::sum, t.options);
     },
     [](int, int ranks, std::size_t i, std::size_t) { return sum(ranks, i); }, true},
    {"reduce", true, false, true,
     [](Trial& t) {
       t.comm.reduce(bytes_of(t.in), Element::float32, Reduction::sum, 0, t.options);
     },
     [](int, int ranks, std::size_t i, std::size_t) { return sum(ranks, i); }},
    {"reduce_scatter", false, true, false,
     [](Trial& t) {
       t.comm.reduce_scatter(bytes_of(t.in), t.part_of(t.out), Element::float32, Reduction::sum,
                             t.options);
     },
     [](int rank, int ranks, std::size_t i, std::size_t count) {
       const std::size_t part = count / static_cast<std::size_t>(ranks);
       return i < part ? sum(ranks, static_cast<std::size_t>(rank) * part + i) : 0.f;
     }},
    {"all_gather", false, true, false,
     [](Trial& t) { t.comm.all_gather(t.part_of(t.in), bytes_of(t.out), t.options); },
     [](int, int ranks, std::size_t i, std::size_t count) {
       const std::size_t part = count / static_cast<std::size_t>(ranks);
       return value(static_cast<int>(i / part), i % part);
     }},
    {"gather", false, true, true,
     [](Trial& t) { t.comm.gather(t.part_of(t.in), bytes_of(t.out), 0, t.options); },
     [](int, int ranks, std::size_t i, std::size_t count) {
       const std::size_t part = count / static_cast<std::size_t>(ranks);
       return value(static_cast<int>(i / part), i % part);
     }},
    {"scatter", false, true, false,
     [](Trial& t) { t.comm.scatter(bytes_of(t.in), t.part_of(t.out), 0, t.options); },
     [](int rank, int ranks, std::size_t i, std::size_t count) {
       const std::size_t part = count / static_cast<std::size_t>(ranks);
       return i < part ? value(0, static_cast<std::size_t>(rank) * part + i) : 0.f;
     }},
    {"broadcast", true, false, false,
     [](Trial& t) { t.comm.broadcast(bytes_of(t.in), 0, t.options); },
     [](int, int, std::size_t i, std::size_t) { return value(0, i); }},
    {"all_to_all", false, true, false,
     [](Trial& t) { t.comm.all_to_all(bytes_of(t.in), bytes_of(t.out), t.options); },
     [](int rank, int ranks, std::size_t i, std::size_t count) {
       const std::size_t part = count / static_cast<std::size_t>(ranks);
       return value(static_cast<int>(i / part), static_cast<std::size_t>(rank) * part + i % part);
     }},
    {"barrier", true, false, false, [](Trial& t) { t.comm.barrier(t.options); },
     [](int rank, int, std::size_t i, std::size_t) { return value(rank, i); }},
};

void verify(const Collective& collective, Trial& trial) {
  const int rank = trial.comm.rank(), ranks = trial.comm.size();
  for (std::size_t i = 0; i < trial.in.size(); ++i) trial.in[i] = value(rank, i);
  std::fill(trial.out.begin(), trial.out.end(), 0.f);
  collective.run(trial);
  if (collective.at_root && rank != 0) return;
  const Floats got = collective.in_place ? trial.in : trial.out;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float expected = collective.expected(rank, ranks, i, got.size());
    if (got[i] != expected)
      throw InternalError(fmt::format("{}: rank {} got {} at {} of {}, expected {}",
                                      collective.name, rank, got[i], i, got.size(), expected));
  }
}

void print_line(const char* name, std::size_t bytes, const std::vector<double>& micros) {
  fmt::print("{{\"collective\": \"{}\", \"bytes\": {}, \"us_p50\": {:.3f}, \"us_p99\": {:.3f}}}\n",
             name, bytes, micros[micros.size() / 2], micros[micros.size() * 99 / 100]);
}

// What the others left in this rank's cache after the last call would flatter shared memory: each
// rank writes its own data before the next one, as a training step does.
std::vector<double> time_trial(const Collective& collective, Trial& trial, std::size_t calls) {
  const auto prepare = [&] {
    if (!collective.shared) return;
    std::fill(trial.in.begin(), trial.in.end(), 0.f);
    trial.comm.barrier();
  };
  return time_calls(calls, prepare, [&] { collective.run(trial); });
}

void measure(const Collective& collective, Communicator& comm, const CommSide& side) {
  const bool is_barrier = std::strcmp(collective.name, "barrier") == 0;
  std::span<std::byte> shared;
  if (collective.shared) shared = comm.allocate(kMostBytes);
  for (std::size_t bytes = 8; bytes <= kMostBytes; bytes *= 2) {
    std::size_t count = bytes / sizeof(float);
    if (collective.has_parts) count -= count % static_cast<std::size_t>(comm.size());
    if (count == 0) continue;
    std::vector<float> own(collective.shared ? 0 : count), out(collective.in_place ? 0 : count);
    const Floats in =
        collective.shared ? Floats(reinterpret_cast<float*>(shared.data()), count) : Floats(own);
    Trial trial{comm, {.algorithm = side.algorithm}, in, out};
    verify(collective, trial);
    std::fill(trial.in.begin(), trial.in.end(), 0.f);
    const auto micros = time_trial(collective, trial, calls_for(bytes, side.quick));
    if (comm.rank() == 0) print_line(collective.name, is_barrier ? 0 : bytes, micros);
    if (is_barrier) return;
  }
}

// What a copy takes on one core while the other ranks wait.
void measure_memcpy(Communicator& comm, const CommSide& side) {
  for (std::size_t bytes = 8; bytes <= kMostBytes && comm.rank() == 0; bytes *= 2)
    print_line("memcpy", bytes, time_memcpy(bytes, side.quick));
  comm.barrier();
}

// Over the network, to ranks that the first one gathers; `secret` is fresh for each run.
std::unique_ptr<comm::Transport> connect_by_network(const CommSide& side, const std::string& secret,
                                                    int rank) {
  const std::size_t half = static_cast<std::size_t>(2 * rank / side.ranks);
  NetworkPair::enter(side.networks.at(half));
  const comm::Endpoint place{NetworkPair::address(0), 7077};
  std::jthread coordinating;
  if (rank == 0)
    coordinating = std::jthread([&] {
      cluster::CoordinatorOptions options;
      options.listen = place;
      options.secret = secret;
      options.workers = side.ranks;
      cluster::Coordinator(options).run();
    });
  cluster::RendezvousOptions options;
  options.coordinator = place;
  options.secret = secret;
  options.workers = side.ranks;
  options.rank = rank;
  options.host = half == 0 ? "first" : "second";
  cluster::Rendezvous rendezvous(options);
  return comm::connect_group(rendezvous.bootstrap());
}

std::unique_ptr<comm::Transport> connect(const CommSide& side, const std::string& job, int rank) {
  if (side.networks.empty()) return comm::connect_shm({job, rank, side.ranks});
  return connect_by_network(side, job, rank);
}

int run_rank(const CommSide& side, const std::string& job, int rank) try {
  Communicator comm(connect(side, job, rank));
  for (const Collective& collective : kCollectives)
    if (side.names.empty() ||
        std::find(side.names.begin(), side.names.end(), collective.name) != side.names.end())
      measure(collective, comm, side);
  measure_memcpy(comm, side);
  return std::fflush(stdout) == 0 ? 0 : 1;
} catch (const std::exception& error) {
  print_error("bench comm: rank {}: {}\n", rank, error.what());
  return 1;
}

}  // namespace

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective& collective : kCollectives) names.emplace_back(collective.name);
  return names;
}

int serve_comm(const CommSide& side) {
  const std::string job = "bench-" + to_hex(random_bytes(16));
  std::vector<Process> ranks;
  for (int rank = 0; rank < side.ranks; ++rank)
    ranks.push_back(
        Process::fork([&] { return run_rank(side, job, rank); }, {.death_signal = SIGKILL}));
  bool failed = false;
  for (Process& rank : ranks) failed |= rank.wait(kDeadline).value_or(ExitStatus{1}).shell() != 0;
  return failed ? 1 : 0;
}

}  // namespace lockstep::bench
