// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/call_times.h"
#include "bench/ps_bench.h"
#include "lockstep/base/print_error.h"
#include "lockstep/kvstore/kvstore.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/join_job.h"

namespace lockstep::bench {
namespace {

using kvstore::Key, kvstore::KVStore, kvstore::RowSparse;
constexpr std::int64_t kWidth = 64, kRows = 2'000;

void say(KVStore& store, Json line, const std::vector<double>& micros) {
  line["us_p50"] = micros[micros.size() / 2];
  line["us_p99"] = micros[micros.size() * 99 / 100];
  if (store.rank() == 0) fmt::print("{}\n", line.dump());
}

void expect(const std::string& what, std::size_t i, float got, float expected) {
  if (got != expected)
    throw InternalError(fmt::format("{}: got {} at {}, expected {}", what, got, i, expected));
}

// What worker r pushes at place i; small whole numbers, whose sums are exact.
float pushed(int worker, std::size_t i) {
  return static_cast<float>(worker + 1 + static_cast<int>(i % 5));
}
float sum(int workers, std::size_t i) {
  float all = 0;
  for (int worker = 0; worker < workers; ++worker) all += pushed(worker, i);
  return all;
}

// So many keys, of so many bytes together. A push is over when the server has said so.
class Trial {
 public:
  Trial(KVStore& store, std::size_t bytes, int keys)
      : store_(store),
        values_(Tensor::empty({static_cast<std::int64_t>(bytes / sizeof(float)) / keys})) {
    for (std::int64_t i = 0; i < values_.numel(); ++i)
      values_.data<float>()[i] = pushed(store.rank(), static_cast<std::size_t>(i));
    for (int k = 0; k < keys; ++k)
      store.init(keys_.emplace_back(fmt::format("{} of {} in {} bytes", k, keys, bytes)),
                 Tensor::zeros(values_.shape()));
    all_values_.assign(keys_.size(), values_);
  }

  void push() {
    store_.push(keys_, all_values_);
    store_.barrier();
  }
  void pull() { pulled_ = store_.pull(keys_); }
  void push_pull() { pulled_ = store_.pushpull(keys_, all_values_); }

  void verify() {
    push();
    for (const Key& key : keys_) {
      const std::vector<float> got = store_.pull(key).to_vector<float>();
      for (std::size_t i = 0; i < got.size(); ++i)
        expect("key " + key.str(), i, got[i], sum(store_.num_workers(), i));
    }
    store_.barrier();
  }

 private:
  KVStore& store_;
  Tensor values_;
  std::vector<Tensor> all_values_, pulled_;
  std::vector<Key> keys_;
};

// A message, however short, takes as long as so many bytes do.
constexpr std::size_t kMessage = 64 << 10;

void measure_values(KVStore& store, std::size_t bytes, int keys, bool quick) {
  const std::size_t calls =
      calls_for(std::max(bytes, static_cast<std::size_t>(keys) * kMessage), quick);
  Trial trial(store, bytes, keys);
  trial.verify();
  const auto measure = [&](const char* name, auto method) {
    say(store, {{"op", name}, {"bytes", bytes}, {"keys", keys}},
        time_calls(calls, [&] { (trial.*method)(); }));
    store.barrier();
  };
  measure("push", &Trial::push);
  measure("pull", &Trial::pull);
  measure("pushpull", &Trial::push_pull);
}

// What a copy takes on one core while the other members wait.
void measure_memcpy(KVStore& store, const PsSide& side) {
  for (const int size : side.kilobytes) {
    const auto bytes = static_cast<std::size_t>(size) * 1024;
    if (store.rank() == 0)
      say(store, {{"op", "memcpy"}, {"bytes", bytes}, {"keys", 1}}, time_memcpy(bytes, side.quick));
  }
  store.barrier();
}

// A large table, its update on the server (w += the sum of what is pushed): by some rows, and as a
// whole.
class Table {
 public:
  Table(KVStore& store, std::int64_t rows)
      : store_(store), ones_(Tensor::full({rows, kWidth}, 1.0)) {
    for (std::int64_t i = 0; i < kRows; ++i) touched_.ids.push_back(i * (rows / kRows) + i % 7);
    touched_.rows = Tensor::full({kRows, kWidth}, 1.0);
    store.init(key_, Tensor::zeros(ones_.shape()));
    store.set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
  }

  void push_rows() {
    store_.row_sparse_push(key_, touched_);
    store_.barrier();
  }
  void pull_rows() { pulled_rows_ = store_.row_sparse_pull(key_, touched_.ids); }
  void step_rows() {
    store_.row_sparse_push(key_, touched_);
    pull_rows();
  }
  // Between a push and the pull of the next batch's rows, that batch is made.
  void next_batch() {
    store_.row_sparse_push(key_, touched_);
    make_batch();
    pull_rows();
  }
  void next_batch_ahead() {
    store_.row_sparse_push(key_, touched_);
    store_.row_sparse_prefetch(key_, touched_.ids);
    make_batch();
    pull_rows();
  }
  void push_whole() {
    store_.push(key_, ones_);
    store_.barrier();
  }
  void pull_whole() { pulled_ = store_.pull(key_); }
  void step_whole() {
    store_.push(key_, ones_);
    pull_whole();
  }

  void verify() {
    const auto workers = static_cast<float>(store_.num_workers());
    step_rows();
    for (const float value : pulled_rows_.rows.to_vector<float>())
      expect("rows", 0, value, workers);
    step_whole();
    store_.barrier();
    std::vector<bool> is_touched(static_cast<std::size_t>(ones_.shape()[0]));
    for (const std::int64_t id : touched_.ids) is_touched[static_cast<std::size_t>(id)] = true;
    const float* got = pulled_.data<float>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(pulled_.numel()); ++i)
      expect("table", i, got[i], is_touched[i / kWidth] ? 2 * workers : workers);
  }

  // A row's number goes with it; to pull, numbers go and rows come.
  static std::size_t bytes_of_rows() {
    return kRows * (sizeof(std::int64_t) + kWidth * sizeof(float));
  }
  std::size_t bytes() const { return static_cast<std::size_t>(ones_.numel()) * sizeof(float); }

 private:
  // Some milliseconds' work of one core.
  void make_batch() {
    for (int round = 0; round < 8; ++round)
      for (float& value : batch_) value = value * 0.5F + 1.0F;
    asm volatile("" : : "r"(batch_.data()) : "memory");  // it is wanted
  }

  KVStore& store_;
  Key key_ = "table";
  std::vector<float> batch_ = std::vector<float>(1 << 20);
  Tensor ones_, pulled_;
  RowSparse touched_, pulled_rows_;
};

void measure_table(KVStore& store, bool quick) {
  Table table(store, quick ? 100'000 : 1'000'000);
  table.verify();
  const auto measure = [&](const char* name, std::size_t bytes, std::size_t calls, auto method) {
    say(store,
        {{"op", name},
         {"bytes", bytes},
         {"keys", 1},
         {"rows", kRows},
         {"table_bytes", table.bytes()}},
        time_calls(calls, [&] { (table.*method)(); }));
    store.barrier();
  };
  const std::size_t rows = Table::bytes_of_rows(), whole = table.bytes();
  const std::size_t many = quick ? 20 : 200, few = quick ? 2 : 4;
  measure("row_sparse_push", rows, many, &Table::push_rows);
  measure("row_sparse_pull", rows, many, &Table::pull_rows);
  measure("row_sparse_pushpull", 2 * rows, many, &Table::step_rows);
  measure("next_rows", 2 * rows, many, &Table::next_batch);
  measure("next_rows_ahead", 2 * rows, many, &Table::next_batch_ahead);
  measure("table_push", whole, few, &Table::push_whole);
  measure("table_pull", whole, few, &Table::pull_whole);
  measure("table_pushpull", 2 * whole, few, &Table::step_whole);
}

}  // namespace

int serve_ps(const PsSide& side) try {
  const train::OwnJob own = train::join_job();  // a server stays in here
  const auto values = kvstore::create("ps_sync", own.parts());
  for (const int size : side.kilobytes)
    for (const int keys : side.keys)
      measure_values(*values, static_cast<std::size_t>(size) * 1024, keys, side.quick);
  measure_memcpy(*values, side);
  if (!side.values_only) measure_table(*kvstore::create("ps_sync", own.parts()), side.quick);
  return std::fflush(stdout) == 0 ? 0 : 1;
} catch (const std::exception& error) {
  print_error("bench ps: {}\n", error.what());
  return 1;
}

}  // namespace lockstep::bench
