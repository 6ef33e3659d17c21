// SPDX-License-Identifier: Apache-2.0
#include "bench/ps_bench.h"

#include <fmt/ranges.h>

#include <map>
#include <sstream>
#include <tuple>

#include "bench/side.h"
#include "lockstep/base/error.h"
#include "lockstep/base/process.h"
#include "lockstep/observe/progress.h"

namespace lockstep::bench {
namespace {

constexpr int kRounds = 3;
constexpr std::string_view kRows = "row_sparse_", kTable = "table_", kNext = "next_rows";

struct Operation {
  std::string name;
  std::size_t bytes = 0;
  int keys = 1;
  auto operator<=>(const Operation&) const = default;
};

// Of one operation with so many servers: what each round measured, in microseconds.
struct Times {
  std::vector<double> p50 = {}, p99 = {};
  Json line = {};
};
using Measured = std::map<Operation, Times>;

void add_lines(Measured& measured, std::vector<Operation>& order, const std::string& output) {
  std::istringstream lines(output);
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text);
    const Operation operation{line["op"], line["bytes"], line["keys"]};
    if (!measured.contains(operation)) order.push_back(operation);
    Times& times = measured[operation];
    times.p50.push_back(line["us_p50"]);
    times.p99.push_back(line["us_p99"]);
    times.line = line;
  }
}

// One job of so many servers, launched as a user's. The table is large, and takes its time: one
// round has it.
std::string run_job(const PsBenchOptions& options, int servers, bool values_only) {
  const std::string program = program_path().string();
  std::vector<std::string> command{
      program,       "launch",
      "-n",          std::to_string(options.workers),
      "-s",          std::to_string(servers),
      "--",          program,
      "bench",       "ps-side",
      "--keys",      fmt::format("{}", fmt::join(options.keys, ",")),
      "--kilobytes", fmt::format("{}", fmt::join(options.kilobytes, ","))};
  if (options.quick) command.emplace_back("--quick");
  if (values_only) command.emplace_back("--values-only");
  const ProcessResult result = run_process(command, {.deadline = std::chrono::minutes(20)});
  if (result.status != 0)
    throw IoError("bench ps: {} servers: ended with status {}: {}", servers, result.status,
                  result.errors);
  return result.output;
}

double gigabytes_per_s(std::size_t bytes, double micros) {
  return static_cast<double>(bytes) / micros / 1e3;
}

Json common_row(const Operation& operation, const Times& times, int servers, int workers) {
  return {{"bench", "ps"},
          {"op", operation.name},
          {"servers", servers},
          {"workers", workers},
          {"keys", operation.keys},
          {"bytes", operation.bytes},
          {"us_p50", median(times.p50)},
          {"us_p99", median(times.p99)},
          {"verified", true}};
}

// A push moves its bytes once, and so does a pull.
std::size_t moved_bytes(const Operation& operation) {
  return operation.name == "pushpull" ? 2 * operation.bytes : operation.bytes;
}

Json value_row(const Operation& operation, const Measured& measured, int servers, int workers) {
  const Times& times = measured.at(operation);
  const Times& copy = measured.at({"memcpy", operation.bytes, 1});
  Json row = common_row(operation, times, servers, workers);
  row["gbs"] = gigabytes_per_s(moved_bytes(operation), median(times.p50));
  row["memcpy_gbs"] = gigabytes_per_s(operation.bytes, median(copy.p50));
  const double copies =
      static_cast<double>(moved_bytes(operation)) / static_cast<double>(operation.bytes);
  row["memcpy_ratio"] = copies * median_ratio(copy.p50, times.p50);
  return row;
}

// Beside the same operation with the whole table.
Json sparse_row(const Operation& operation, const Measured& measured, int servers, int workers) {
  const Times& times = measured.at(operation);
  const std::string what = operation.name.substr(kRows.size());
  const std::size_t table = times.line["table_bytes"];
  const Operation dense{std::string(kTable) + what, what == "pushpull" ? 2 * table : table};
  const Times& whole = measured.at(dense);
  Json row = common_row(operation, times, servers, workers);
  row["rows"] = times.line["rows"];
  row["rows_per_s"] = times.line["rows"].get<double>() / median(times.p50) * 1e6;
  row["dense_bytes"] = dense.bytes;
  row["bytes_ratio"] = static_cast<double>(operation.bytes) / static_cast<double>(dense.bytes);
  row["dense_us"] = median(whole.p50);
  row["speedup"] = median_ratio(whole.p50, times.p50);
  return row;
}

// A push and a pull with other work between them: beside the one that has not asked ahead.
Json next_row(const Operation& operation, const Measured& measured, int servers, int workers) {
  const Times& times = measured.at(operation);
  Json row = common_row(operation, times, servers, workers);
  row["rows"] = times.line["rows"];
  row["speedup"] =
      median_ratio(measured.at({std::string(kNext), operation.bytes, 1}).p50, times.p50);
  return row;
}

auto row_maker(const std::string& operation) {
  if (operation.starts_with(kNext)) return next_row;
  return operation.starts_with(kRows) ? sparse_row : value_row;
}

void print_head() {
  fmt::print("{:<20} {:>7} {:>5} {:>9} {:>11} {:>11} {:>7} {:>7} {:>9}   (GB/s)\n", "op", "servers",
             "keys", "bytes", "p50 us", "p99 us", "rate", "memcpy", "of memcpy");
}

void print_row(const Json& row) {
  fmt::print("{:<20} {:>7} {:>5} {:>9} {:>11.1f} {:>11.1f}", row["op"].get<std::string>(),
             row["servers"].get<int>(), row["keys"].get<int>(), row["bytes"].get<std::size_t>(),
             row["us_p50"].get<double>(), row["us_p99"].get<double>());
  if (row.contains("gbs"))
    fmt::print(" {:>7.2f} {:>7.2f} {:>9.2f}\n", row["gbs"].get<double>(),
               row["memcpy_gbs"].get<double>(), row["memcpy_ratio"].get<double>());
  else if (!row.contains("dense_us"))
    fmt::print("   {:.2f}x as fast\n", row["speedup"].get<double>());
  else
    fmt::print("   {:.0f} rows/s, {:.2f}% of the table's bytes, {:.0f}x as fast\n",
               row["rows_per_s"].get<double>(), 100 * row["bytes_ratio"].get<double>(),
               row["speedup"].get<double>());
}

}  // namespace

// Numbers of servers take turns, so that what the machine does meanwhile meets them all.
void run_ps(const PsBenchOptions& options) {
  if (!options.train.empty()) return run_ps_train(options);
  const int rounds = options.quick ? 1 : kRounds;
  std::map<int, Measured> measured;
  std::map<int, std::vector<Operation>> order;
  observe::Progress progress(observe::standard_error());
  progress.begin(
      {.label = "bench ps", .total = rounds * static_cast<std::int64_t>(options.servers.size())});
  std::int64_t done = 0;
  for (int round = 0; round < rounds; ++round)
    for (const int servers : options.servers) {
      add_lines(measured[servers], order[servers], run_job(options, servers, round > 0));
      progress.update(++done);
    }
  progress.finish();
  if (!options.json) print_head();
  for (const int servers : options.servers)
    for (const Operation& operation : order[servers]) {
      if (operation.name == "memcpy" || operation.name.starts_with(kTable)) continue;
      const auto make = row_maker(operation.name);
      const Json row = make(operation, measured[servers], servers, options.workers);
      options.json ? fmt::print("{}\n", row.dump()) : print_row(row);
    }
}

}  // namespace lockstep::bench
