// SPDX-License-Identifier: Apache-2.0
#include "bench/comm_bench.h"

#include <fmt/core.h>

#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "bench/responder.h"
#include "bench/side.h"
#include "lockstep/base/network_pair.h"
#include "lockstep/base/print_error.h"
#include "lockstep/base/process.h"
#include "lockstep/observe/progress.h"

namespace lockstep::bench {
namespace {

constexpr int kRounds = 3;

using Key = std::pair<std::string, std::size_t>;  // collective and bytes

// The times of one program over the rounds.
struct Times {
  std::map<Key, std::vector<double>> p50, p99;

  void add(const std::string& output) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with('{')) continue;  // what mpirun says besides
      const Json row = Json::parse(line);
      const Key key{row["collective"], row["bytes"]};
      p50[key].push_back(row["us_p50"]);
      p99[key].push_back(row["us_p99"]);
    }
  }
  std::optional<double> micros(const Key& key) const {
    const auto found = p50.find(key);
    if (found == p50.end()) return {};
    return median(found->second);
  }
};

struct Program {
  std::string name;
  std::vector<std::string> command;
  Times times = {};
};

void run_once(Program& program) {
  const ProcessResult result = run_process(program.command, {.deadline = std::chrono::minutes(10)});
  if (result.status != 0)
    throw IoError("bench comm: {} ended with status {}: {}", program.name, result.status,
                  result.errors);
  program.times.add(result.output);
}

std::vector<std::string> with_quick(std::vector<std::string> command, bool quick) {
  if (quick) command.emplace_back("--quick");
  return command;
}

// The link that --namespaces asks for; null without.
std::unique_ptr<NetworkPair> make_link(const CommBenchOptions& options) {
  if (!options.namespaces) return nullptr;
  const std::string reason = NetworkPair::why_not();
  if (!reason.empty()) throw Unsupported("bench comm: --namespaces: {}", reason);
  if (options.ranks % 2 != 0)
    throw InvalidArgument(
        "bench comm: --namespaces has two halves, got --ranks {}, expected an "
        "even number",
        options.ranks);
  auto link = std::make_unique<NetworkPair>();
  if (!options.link_rate.empty()) link->shape(options.link_rate);
  return link;
}

std::vector<Program> find_programs(const CommBenchOptions& options, const NetworkPair* link) {
  const std::filesystem::path folder = program_path().parent_path();
  const std::string ranks = std::to_string(options.ranks);
  std::vector<std::string> ours{
      program_path().string(), "bench",          "comm-side", "--ranks", ranks,
      "--algorithm",           options.algorithm};
  for (const std::string& name : options.names) ours.insert(ours.end(), {"--collectives", name});
  std::vector<std::string> networks;
  if (link != nullptr) networks = {"--networks", link->path(0), "--networks", link->path(1)};
  ours.insert(ours.end(), networks.begin(), networks.end());
  std::vector<Program> programs{{"lockstep", with_quick(ours, options.quick)}};
  const std::string gloo = (folder / "gloo_all_reduce_peer").string();
  const std::string mpi = (folder / "mpi_all_reduce_peer").string();
  const auto add = [&](const char* name, const std::string& file,
                       std::vector<std::string> command) {
    if (!options.peer) return;
    if (std::filesystem::exists(file))
      programs.push_back({name, with_quick(std::move(command), options.quick)});
    else
      print_error("bench comm: {} is not measured: it was not there at build time\n", name);
  };
  std::vector<std::string> gloo_command{gloo, ranks};
  gloo_command.insert(gloo_command.end(), networks.begin(), networks.end());
  add("gloo", gloo, gloo_command);
  if (link != nullptr) return programs;
  add("openmpi", mpi, {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks, mpi});
  return programs;
}

// How many times the data crosses a link, as nccl-tests count it.
double bus_factor(const std::string& collective, int ranks) {
  const double n = ranks;
  if (collective == "all_reduce") return 2 * (n - 1) / n;
  if (collective == "broadcast" || collective == "reduce") return 1;
  return (n - 1) / n;
}

double gigabytes_per_s(std::size_t bytes, double micros) {
  return static_cast<double>(bytes) / micros / 1e3;
}

// The collective and where its data lies: in the ranks' own memory, or in memory that they share.
std::pair<std::string, std::string> name_and_memory(const std::string& collective) {
  constexpr std::string_view kShared = "_shared";
  if (!collective.ends_with(kShared)) return {collective, "private"};
  return {collective.substr(0, collective.size() - kShared.size()), "shared"};
}

const char* transport_of(const CommBenchOptions& options) {
  if (!options.namespaces) return "shm";
  return options.ranks > 2 ? "shm+tcp" : "tcp";
}

Json row_of(const Key& key, const std::vector<Program>& programs, const CommBenchOptions& options) {
  const auto [collective, memory] = name_and_memory(key.first);
  const std::size_t bytes = key.second;
  const Times& ours = programs[0].times;
  const double micros = *ours.micros(key);
  const double factor = bus_factor(collective, options.ranks);
  Json row{{"bench", "comm"},
           {"collective", collective},
           {"transport", transport_of(options)},
           {"algorithm", options.algorithm},
           {"memory", memory},
           {"ranks", options.ranks},
           {"bytes", bytes},
           {"us_p50", micros},
           {"us_p99", median(ours.p99.at(key))},
           {"verified", true}};
  if (!options.link_rate.empty()) row["link_rate"] = options.link_rate;
  if (bytes == 0) return row;
  row["algbw_gbs"] = gigabytes_per_s(bytes, micros);
  row["busbw_gbs"] = gigabytes_per_s(bytes, micros) * factor;
  for (std::size_t i = 1; i < programs.size(); ++i)
    if (const auto theirs = programs[i].times.micros({collective, bytes})) {
      row[programs[i].name + "_us"] = *theirs;
      row[programs[i].name + "_busbw_gbs"] = gigabytes_per_s(bytes, *theirs) * factor;
      row[programs[i].name + "_ratio"] =
          median_ratio(programs[i].times.p50.at({collective, bytes}), ours.p50.at(key));
    }
  if (const auto copy = ours.micros({"memcpy", bytes}))
    row["memcpy_gbs"] = gigabytes_per_s(bytes, *copy);
  return row;
}

void print_head(const std::vector<Program>& programs) {
  std::string line = fmt::format("{:<15} {:<8} {:>9} {:>10} {:>10} {:>7} {:>7} {:>7}", "collective",
                                 "memory", "bytes", "p50 us", "p99 us", "algbw", "busbw", "memcpy");
  for (std::size_t i = 1; i < programs.size(); ++i)
    line += fmt::format(" {:>10}", "x " + programs[i].name);
  fmt::print("{}   (GB/s)\n", line);
}

std::string cell(const Json& row, const std::string& name, int width) {
  return row.contains(name) ? fmt::format(" {:>{}.2f}", row[name].get<double>(), width)
                            : fmt::format(" {:>{}}", "", width);
}

void print_row(const Json& row, const std::vector<Program>& programs) {
  std::string line = fmt::format("{:<15} {:<8} {:>9}", row["collective"].get<std::string>(),
                                 row["memory"].get<std::string>(), row["bytes"].get<long>());
  for (const char* name : {"us_p50", "us_p99"}) line += cell(row, name, 10);
  for (const char* name : {"algbw_gbs", "busbw_gbs", "memcpy_gbs"}) line += cell(row, name, 7);
  for (std::size_t i = 1; i < programs.size(); ++i)
    line += cell(row, programs[i].name + "_ratio", 10);
  fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
}

void run_rounds(std::vector<Program>& programs) {
  observe::Progress progress(observe::standard_error());
  progress.begin(
      {.label = "bench comm", .total = kRounds * static_cast<std::int64_t>(programs.size())});
  std::int64_t done = 0;
  for (int round = 0; round < kRounds; ++round)
    for (Program& program : programs) {
      run_once(program);
      progress.update(++done);
    }
  progress.finish();
}

}  // namespace

std::vector<std::string> algorithm_names() {
  return {"automatic", "tree", "ring", "multi_ring", "hierarchical", "central"};
}

comm::Algorithm find_algorithm(const std::string& name) {
  using comm::Algorithm;
  const Algorithm algorithms[] = {Algorithm::automatic,    Algorithm::tree,
                                  Algorithm::ring,         Algorithm::multi_ring,
                                  Algorithm::hierarchical, Algorithm::central};
  const std::vector<std::string> names = algorithm_names();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return algorithms[i];
  throw NotFound("algorithm: there is none named '{}'", name);
}

// The programs take turns, so that what the machine does meanwhile meets them all.
void run_comm(const CommBenchOptions& options) {
  const std::unique_ptr<NetworkPair> link = make_link(options);
  std::vector<Program> programs = find_programs(options, link.get());
  run_rounds(programs);
  if (!options.json) print_head(programs);
  for (const auto& [key, times] : programs[0].times.p50) {
    if (key.first == "memcpy") continue;
    const Json row = row_of(key, programs, options);
    options.json ? fmt::print("{}\n", row.dump()) : print_row(row, programs);
  }
}

}  // namespace lockstep::bench
