// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/kvstore.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/servers/store_on_servers.h"
#include "lockstep/kvstore/store_checks.h"
#include "lockstep/kvstore/store_type.h"
#include "lockstep/kvstore/store_update.h"

namespace lockstep::kvstore {
namespace {

struct Value {
  TensorInfo info;  // as given to init
  Tensor data;      // float32, dense
  StoreUpdate update = {};
  std::unique_ptr<CompressedSum> compressed = {};
};

class Store final : public KVStore {
 public:
  Store(const StoreType& type, comm::Communicator* communicator)
      : type_(type), group_(communicator) {}

  std::string_view type() const override { return type_.name; }
  int rank() const override { return group_.rank(); }
  int num_workers() const override { return group_.size(); }
  void barrier() override { group_.barrier(); }

  void init(const Key& key, const Tensor& value) override {
    group_.checked([&] {
      check_type("init", key, value);
      if (values_.contains(key)) throw InvalidArgument("init: key {} is there already", key.str());
    });
    group_.agree("init", fmt::format("key {} {}", key.str(), value.info().str()));
    Tensor data = as_float32(value);
    group_.broadcast(floats(data));
    values_.emplace(key, Value{value.info(), data});
  }

  void push(const Key& key, const std::vector<Tensor>& given) override {
    std::vector<Tensor> tensors;
    group_.checked([&] { tensors = pushed_tensors(key, given); });
    Value& value = find("push", key);
    const auto counts = group_.agree("push", "key " + key.str(), given.size());
    const Tensor sum = Tensor::empty(value.info.shape);
    pushed_ = true;
    add_all(value, tensors, counts, sum);
    if (!rule_) return value.data.assign(sum);
    value.update.run(rule_, rescale_, floats(sum), floats(value.data));
  }

  using KVStore::pull;
  Tensor pull(const Key& key) const override {
    const Value& value = find("pull", key);
    Tensor result = Tensor::empty(value.info.shape, value.info.dtype);
    result.assign(value.data);
    return result;
  }

  void row_sparse_push(const Key& key, const RowSparse& given) override {
    group_.checked([&] { check_pushed_rows(key, given); });
    Value& value = find("row_sparse_push", key);
    group_.agree("row_sparse_push", "key " + key.str());
    const std::size_t width = row_width(value.info.shape);
    const Tensor own = as_float32(given.rows);
    const RowSums sums = group_.sum_rows(given.ids, floats(own), width,
                                         static_cast<std::size_t>(value.info.shape[0]));
    pushed_ = true;
    const std::span<float> data = floats(value.data);
    if (!rule_) std::fill(data.begin(), data.end(), 0.0F);
    if (rule_) value.update.begin(rule_, rescale_, data.size());
    for (std::size_t i = 0; i < sums.ids.size(); ++i) {
      const std::span<const float> row(sums.rows.data() + i * width, width);
      const std::size_t offset = static_cast<std::size_t>(sums.ids[i]) * width;
      if (rule_)
        value.update.run_part(offset, row, data.subspan(offset, width));
      else
        for (std::size_t column = 0; column < width; ++column) data[offset + column] = row[column];
    }
  }

  RowSparse row_sparse_pull(const Key& key,
                            const std::vector<std::int64_t>& row_ids) const override {
    const Value& value = find("row_sparse_pull", key);
    check_rows("row_sparse_pull", key, value.info.shape, row_ids);
    RowSparse result{sorted_ids(row_ids), {}};
    const Tensor rows =
        Tensor::empty(rows_shape(value.info.shape, static_cast<std::int64_t>(result.ids.size())));
    const std::size_t width = row_width(value.info.shape);
    float* to = rows.data<float>();
    for (const std::int64_t id : result.ids)
      to = std::copy_n(value.data.data<float>() + static_cast<std::size_t>(id) * width, width, to);
    result.rows = Tensor::empty(rows.shape(), value.info.dtype);
    result.rows.assign(rows);
    return result;
  }

  // They are here.
  void row_sparse_prefetch(const Key& key,
                           const std::vector<std::int64_t>& row_ids) const override {
    check_rows("row_sparse_prefetch", key, find("row_sparse_prefetch", key).info.shape, row_ids);
  }

  void set_optimizer(optim::OptimizerPtr rule, double rescale) override {
    check_rule(rule);
    rule_ = std::move(rule);
    rescale_ = rescale;
    for (auto& [key, value] : values_) value.update = {};
  }

  void load_optimizer_states(const std::string& path) override {
    check_has_rule("load_optimizer_states");
    OptimizerStates states = OptimizerStates::load(path, rule_->name());
    std::vector<std::pair<Value*, OptimizerStates::OfKey*>> found;
    for (auto& [name, state] : states.keys) {
      const auto place = std::find_if(values_.begin(), values_.end(),
                                      [&](const auto& one) { return one.first.str() == name; });
      if (place == values_.end()) throw NotFound("{}: there is no key {}", path, name);
      const std::size_t count = floats(place->second.data).size();
      for (const std::vector<float>& slot : state.slots)
        if (slot.size() != count)
          throw InvalidArgument("{}: key {} has {} elements, expected {}", path, name, slot.size(),
                                count);
      found.emplace_back(&place->second, &state);
    }
    for (auto& [value, state] : found) value->update.restore(state->steps, std::move(state->slots));
  }

  void set_gradient_compression(const Compression& compression) override {
    if (pushed_)
      throw InvalidArgument(
          "set_gradient_compression: something was pushed already, expected it "
          "before");
    make_codec(compression);  // or InvalidArgument
    compression_ = compression;
  }

 protected:
  OptimizerStates optimizer_states() const override {
    check_has_rule("save_optimizer_states");
    OptimizerStates states{std::string(rule_->name())};
    for (const auto& [key, value] : values_)
      states.keys[key.str()] = {value.update.steps(), value.update.slots()};
    return states;
  }

 private:
  void check_has_rule(const char* what) const {
    if (!rule_) throw InvalidArgument("{}: no optimizer, expected set_optimizer() before", what);
  }

  std::vector<Tensor> pushed_tensors(const Key& key, const std::vector<Tensor>& given) {
    const Value& value = find("push", key);
    if (given.empty()) throw InvalidArgument("push: key {}: no value", key.str());
    std::vector<Tensor> tensors;
    for (const Tensor& tensor : given) {
      check_shape("push", key, tensor, value.info.shape);
      tensors.push_back(as_float32(tensor));
    }
    return tensors;
  }

  void check_pushed_rows(const Key& key, const RowSparse& given) {
    const Value& value = find("row_sparse_push", key);
    check_rows("row_sparse_push", key, value.info.shape, given.ids);
    check_shape("row_sparse_push", key, given.rows,
                rows_shape(value.info.shape, static_cast<std::int64_t>(given.ids.size())));
  }

  Value& find(const char* what, const Key& key) {
    const auto found = values_.find(key);
    if (found == values_.end())
      throw NotFound("{}: there is no key {}, expected init() before", what, key.str());
    return found->second;
  }
  const Value& find(const char* what, const Key& key) const {
    return const_cast<Store*>(this)->find(what, key);
  }

  void add_all(Value& value, const std::vector<Tensor>& tensors,
               const std::vector<std::size_t>& counts, const Tensor& sum) {
    std::vector<std::span<const float>> own;
    for (const Tensor& tensor : tensors) own.push_back(floats(tensor));
    if (compression_.is_none()) return group_.sum(own, counts, floats(sum));
    if (value.compressed == nullptr) value.compressed = group_.compressed(compression_);
    sum_in_tree(own, floats(sum));
    value.compressed->begin(floats(sum).size());
    value.compressed->run(0, floats(sum));
    value.compressed->commit();
  }

  const StoreType& type_;
  GroupSum group_;
  std::map<Key, Value> values_;
  optim::OptimizerPtr rule_;
  double rescale_ = 1.0;
  Compression compression_;
  bool pushed_ = false;
};

}  // namespace

std::string Key::str() const {
  if (const auto* number = std::get_if<std::int64_t>(&value_)) return std::to_string(*number);
  return "'" + std::get<std::string>(value_) + "'";
}

void KVStore::pull(const Key& key, const std::vector<Tensor>& out) const {
  const Tensor value = pull(key);
  for (const Tensor& tensor : out) check_shape("pull", key, tensor, value.shape());
  for (const Tensor& tensor : out) tensor.assign(value);
}

Tensor KVStore::pushpull(const Key& key, const std::vector<Tensor>& values) {
  return push_pull_all({{key, values}})[0];
}

KVStore::Grouped KVStore::group(const char* what, const std::vector<Key>& keys,
                                const std::vector<Tensor>& values) {
  if (keys.size() != values.size())
    throw InvalidArgument("{}: {} keys and {} values, expected as many", what, keys.size(),
                          values.size());
  Grouped grouped;
  std::map<Key, std::size_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [place, is_new] = places.emplace(keys[i], grouped.pushes.size());
    if (is_new) grouped.pushes.push_back({keys[i], {}});
    grouped.pushes[place->second].values.push_back(values[i]);
    grouped.places.push_back(place->second);
  }
  return grouped;
}

void KVStore::push(const std::vector<Key>& keys, const std::vector<Tensor>& values) {
  push_all(group("push", keys, values).pushes);
}

// A key that is named twice has two tensors.
std::vector<Tensor> KVStore::pushpull(const std::vector<Key>& keys,
                                      const std::vector<Tensor>& values) {
  const Grouped grouped = group("pushpull", keys, values);
  const std::vector<Tensor> pulled = push_pull_all(grouped.pushes);
  std::vector<Tensor> results;
  std::vector<bool> is_taken(pulled.size());
  for (const std::size_t place : grouped.places) {
    results.push_back(is_taken[place] ? pulled[place].copy() : pulled[place]);
    is_taken[place] = true;
  }
  return results;
}

void KVStore::push_all(const std::vector<PushedValues>& pushes) {
  for (const auto& [key, values] : pushes) push(key, values);
}

std::vector<Tensor> KVStore::pull_all(const std::vector<Key>& keys) const {
  std::vector<Tensor> values;
  for (const Key& key : keys) values.push_back(pull(key));
  return values;
}

std::vector<Tensor> KVStore::push_pull_all(const std::vector<PushedValues>& pushes) {
  push_all(pushes);
  std::vector<Key> keys;
  for (const PushedValues& one : pushes) keys.push_back(one.key);
  return pull_all(keys);
}

Tensor KVStore::broadcast(const Key& key, const Tensor& value) {
  init(key, value);
  return pull(key);
}

std::unique_ptr<KVStore> create(std::string_view type, comm::Communicator* communicator) {
  return create(type, JobParts{.communicator = communicator});
}

std::unique_ptr<KVStore> create(std::string_view type, const JobParts& job) {
  const StoreType& known = find_store_type(type, job.servers != nullptr);
  if (known.needs_servers) {
    Pace pace{.type = known.name, .in_step = known.in_step};
    if (known.is_bounded) pace.bound = job.staleness;
    return store_on_servers(servers_of(job, type), job.communicator, pace);
  }
  if (known.is_local() && job.communicator != nullptr && job.communicator->size() > 1)
    throw InvalidArgument("kvstore '{}': is within one process, got {} workers; expected allreduce",
                          type, job.communicator->size());
  return std::make_unique<Store>(known, job.communicator);
}

}  // namespace lockstep::kvstore
