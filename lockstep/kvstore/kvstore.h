// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/optimizer_states.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::kvstore {

// A number or a name; 3 and "3" are two keys.
class Key {
 public:
  Key(std::int64_t number) : value_(number) {}
  Key(int number) : value_(std::int64_t{number}) {}
  Key(std::string name) : value_(std::move(name)) {}
  Key(const char* name) : value_(std::string(name)) {}
  // 3 or 'fc1.weight'.
  std::string str() const;
  auto operator<=>(const Key&) const = default;

 private:
  std::variant<std::int64_t, std::string> value_;
};

// Some rows of a value: row i of `rows` is its row ids[i].
struct RowSparse {
  std::vector<std::int64_t> ids;
  Tensor rows;
};

// MXNet's kvstore: values by key, the same on all workers. Every worker makes the same calls in the
// same order; what they push is added in the canonical tree's order over all pushed values, so the
// bits depend on the values and their order alone, not on who pushed how many of them. Values are
// float32, float16 or bfloat16; the store keeps float32.
class KVStore {
 public:
  virtual ~KVStore() = default;
  // "local", "allreduce", "ps_sync", "ps_async" or "ps_ssp".
  virtual std::string_view type() const = 0;
  virtual int rank() const = 0;
  virtual int num_workers() const = 0;
  virtual void barrier() = 0;

  // The value of rank 0. Throws InvalidArgument when the key is there, or shapes differ.
  virtual void init(const Key& key, const Tensor& value) = 0;
  // The sum over all workers and all their values replaces the key's value; with an optimizer it is
  // the gradient of an update of it. Throws NotFound and InvalidArgument, on this worker, and
  // comm::Aborted on the others, who are told.
  virtual void push(const Key& key, const std::vector<Tensor>& values) = 0;
  // A copy, of the type that was given to init.
  virtual Tensor pull(const Key& key) const = 0;

  void push(const Key& key, const Tensor& value) { push(key, std::vector<Tensor>{value}); }
  // Into tensors that exist, one for each device.
  void pull(const Key& key, const std::vector<Tensor>& out) const;
  Tensor pushpull(const Key& key, const std::vector<Tensor>& values);
  Tensor pushpull(const Key& key, const Tensor& value) {
    return pushpull(key, std::vector<Tensor>{value});
  }
  // Of many keys at once, which is faster than one after the other where they are small and the
  // store is on servers. Values of a key that is named twice are added, as those of a list.
  void push(const std::vector<Key>& keys, const std::vector<Tensor>& values);
  std::vector<Tensor> pull(const std::vector<Key>& keys) const { return pull_all(keys); }
  std::vector<Tensor> pushpull(const std::vector<Key>& keys, const std::vector<Tensor>& values);
  // init and pull.
  Tensor broadcast(const Key& key, const Tensor& value);

  // Rows that several workers push are added; those that nobody does become zero, or with an
  // optimizer stay as they are.
  virtual void row_sparse_push(const Key& key, const RowSparse& value) = 0;
  // Each row once, by increasing id.
  virtual RowSparse row_sparse_pull(const Key& key,
                                    const std::vector<std::int64_t>& row_ids) const = 0;
  // Asks for rows without waiting for them: the next row_sparse_pull of the same ones takes what
  // comes, unless this worker has pushed the key since. They are as a pull here would have them:
  // after this worker's pushes, and in step after those of all. Throws as row_sparse_pull does.
  virtual void row_sparse_prefetch(const Key& key,
                                   const std::vector<std::int64_t>& row_ids) const = 0;

  // From now on a push updates: gradients are multiplied by `rescale` first. Throws Unsupported for
  // a rule that clips by the norm of all gradients together: a push has one.
  virtual void set_optimizer(optim::OptimizerPtr rule, double rescale = 1.0) = 0;
  // Of dense pushes, before the first one. Then sums are in the order of ranks.
  virtual void set_gradient_compression(const Compression& compression) = 0;

  // What the optimizer keeps, in a file; one worker is enough. Throws InvalidArgument without an
  // optimizer.
  void save_optimizer_states(const std::string& path) const { optimizer_states().save(path); }
  // Every worker calls it, and reads the same. Throws as OptimizerStates::load does, and NotFound
  // and InvalidArgument for keys that are not here as they were, before anything has changed.
  virtual void load_optimizer_states(const std::string& path) = 0;

  // Of stores whose workers are not in step: by how many pushes of others the value that a worker
  // had pulled was older than the one that its push met, and how far it was ahead of the slowest.
  struct Staleness {
    std::uint64_t pushes = 0, most = 0, total = 0;
    std::uint64_t most_ahead = 0;
    double mean() const {
      return pushes == 0 ? 0.0 : static_cast<double>(total) / static_cast<double>(pushes);
    }
  };
  virtual Staleness staleness() const { return {}; }

 protected:
  struct PushedValues {
    Key key;
    std::vector<Tensor> values;
  };
  // Each key once.
  virtual void push_all(const std::vector<PushedValues>& pushes);
  virtual std::vector<Tensor> pull_all(const std::vector<Key>& keys) const;
  virtual std::vector<Tensor> push_pull_all(const std::vector<PushedValues>& pushes);
  virtual OptimizerStates optimizer_states() const = 0;

 private:
  // Each key once, and for each of the given ones its place among them.
  struct Grouped {
    std::vector<PushedValues> pushes;
    std::vector<std::size_t> places;
  };
  static Grouped group(const char* what, const std::vector<Key>& keys,
                       const std::vector<Tensor>& values);
};

// By our names or MXNet's (store_type.h). The communicator outlives the store; null: one worker.
// Throws InvalidArgument when "local" is to have several workers.
std::unique_ptr<KVStore> create(std::string_view type, comm::Communicator* communicator = nullptr);
// Of a job that may have servers (store_type.h). Throws InvalidArgument when it has none and the
// type needs them.
struct JobParts;
std::unique_ptr<KVStore> create(std::string_view type, const JobParts& job);

}  // namespace lockstep::kvstore
