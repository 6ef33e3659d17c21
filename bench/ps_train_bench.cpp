// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/ps_bench.h"
#include "bench/side.h"
#include "bench/train_command.h"
#include "lockstep/base/error.h"
#include "lockstep/kvstore/store_type.h"
#include "lockstep/observe/progress.h"

namespace lockstep::bench {
namespace {

constexpr const char* kBench = "bench ps";
// Every way in which workers have parameters in common.
constexpr const char* kStores[] = {"local", "allreduce", "ps_sync", "ps_async", "ps_ssp"};
constexpr const char* kReference = "allreduce";  // what the others' rates are compared with
constexpr int kWorkers = 2, kServers = 2;

// Empty where the Trainer can use it: without servers it then says just that they are needed.
std::string why_refused(const kvstore::StoreType& type) {
  if (!type.needs_servers) return {};
  try {
    type.make({}, {});
  } catch (const Unsupported& error) {
    return error.what();
  } catch (const InvalidArgument&) {
    return {};
  }
  return {};
}

// As many computing threads in each.
std::vector<std::string> words_of(const kvstore::StoreType& type) {
  std::vector<std::string> words{"--kvstore", std::string(type.name)};
  const auto add = [&](const char* name, int count) {
    words.insert(words.end(), {name, std::to_string(count)});
  };
  add("--workers", type.is_local() ? 1 : kWorkers);
  add("--threads", type.is_local() ? kWorkers : 1);
  if (type.needs_servers) add("--servers", kServers);
  return words;
}

Json row_of(const StoreRuns& runs, const StoreRuns& reference, const TrainCase& what,
            std::int64_t steps) {
  Json row{{"bench", "ps-train"},
           {"recipe", what.model},
           {"kvstore", runs.kvstore},
           {"workers", runs.last["workers"]},
           {"servers", runs.last["servers"]},
           {"samples", steps * what.batch},
           {"samples_per_s", median(runs.rates)},
           {"ratio", median_ratio(runs.rates, reference.rates)},
           {"train_loss", runs.last["train_loss"]},
           {"test_loss", runs.last["test_loss"]},
           {"params_sha256", runs.last["params_sha256"]}};
  for (const auto& [name, value] : runs.last.items())
    if (name.starts_with("staleness")) row[name] = value;
  return row;
}

void print_text(const Json& row) {
  fmt::print("{:<16} {:<10}", row["recipe"].get<std::string>(), row["kvstore"].get<std::string>());
  if (row.contains("refused"))
    return fmt::print(" not here: {}\n", row["refused"].get<std::string>());
  fmt::print(" {:>10.1f} samples/s, {:.2f} of {}; after {} samples loss {:.4f}, test {:.4f}\n",
             row["samples_per_s"].get<double>(), row["ratio"].get<double>(), kReference,
             row["samples"].get<std::int64_t>(), row["train_loss"].get<double>(),
             row["test_loss"].get<double>());
}

void print_row(const Json& row, bool json) {
  json ? fmt::print("{}\n", row.dump()) : print_text(row);
  std::fflush(stdout);
}

// In turns; every other round goes backwards, so that none is always first.
void run_rounds(std::vector<StoreRuns>& all, const TrainCase& what, std::int64_t steps,
                int rounds) {
  observe::Progress progress(observe::standard_error());
  progress.begin({.label = "bench ps: " + what.model,
                  .total = rounds * static_cast<std::int64_t>(all.size())});
  std::int64_t done = 0;
  std::vector<StoreRuns*> order;
  for (StoreRuns& runs : all) order.push_back(&runs);
  for (int round = 0; round < rounds; ++round, std::reverse(order.begin(), order.end()))
    for (StoreRuns* runs : order) {
      runs->last =
          train_once(kBench, what, steps, words_of(kvstore::find_store_type(runs->kvstore)));
      runs->rates.push_back(runs->last["samples_per_s"]);
      progress.update(++done);
    }
  progress.finish();
}

}  // namespace

void check_same_parameters(const std::string& recipe, const std::vector<StoreRuns>& all) {
  const StoreRuns* first = nullptr;
  for (const StoreRuns& runs : all) {
    if (!runs.in_step) continue;
    if (first == nullptr) first = &runs;
    if (runs.last["params_sha256"] != first->last["params_sha256"])
      throw Corrupt("bench ps: {}: {} gives other parameters than {}", recipe, runs.kvstore,
                    first->kvstore);
  }
}

void run_ps_train(const PsBenchOptions& options) {
  const TrainCase what = chosen_cases(kBench, {options.train}).front();
  std::vector<StoreRuns> all;
  for (const char* name : kStores) {
    const kvstore::StoreType& type = kvstore::find_store_type(name);
    const std::string refused = why_refused(type);
    if (refused.empty())
      all.push_back({name, type.in_step});
    else
      print_row(
          {{"bench", "ps-train"}, {"recipe", what.model}, {"kvstore", name}, {"refused", refused}},
          options.json);
  }
  const auto reference = std::find_if(
      all.begin(), all.end(), [](const StoreRuns& runs) { return runs.kvstore == kReference; });
  const std::int64_t steps = steps_for(options.quick ? 0.5 : 5.0, kBench, what,
                                       words_of(kvstore::find_store_type(kReference)));
  run_rounds(all, what, steps, options.quick ? 1 : 3);
  check_same_parameters(what.model, all);
  for (const StoreRuns& runs : all) print_row(row_of(runs, *reference, what, steps), options.json);
}

}  // namespace lockstep::bench
