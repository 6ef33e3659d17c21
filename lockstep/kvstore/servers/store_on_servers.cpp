// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/store_on_servers.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/hmac.h"
#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/servers/value_requests.h"
#include "lockstep/kvstore/store_checks.h"

namespace lockstep::kvstore {
namespace {

using wire::Topic;

constexpr auto kLastWords = std::chrono::seconds(2);

std::uint32_t random_number() {
  std::uint32_t number = 0;
  std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
  return number;
}

using Value = PlacedValue;

class StoreOnServers final : public KVStore {
 public:
  StoreOnServers(const ServedJob& job, comm::Communicator* communicator, const Pace& pace)
      : pace_(pace),
        group_(communicator),
        servers_(job, group_.rank()),
        store_(group_.agree("create", std::string(pace.type), random_number())[0]),
        requests_(servers_, pace, store_, worker()) {
    for_all_servers(Topic::join_store, wire::JoinStore{store_, worker()}, "create");
  }

  ~StoreOnServers() override {
    try {
      for_all_servers(Topic::leave_store, wire::JoinStore{store_, worker()}, "leave", kLastWords);
    } catch (const std::exception&) {
      // A server that is gone has no store either.
    }
  }

  std::string_view type() const override { return pace_.type; }
  int rank() const override { return group_.rank(); }
  int num_workers() const override { return group_.size(); }

  void barrier() override {
    for (auto& [key, value] : values_) requests_.wait_for_push(value);
    group_.barrier();
  }

  void init(const Key& key, const Tensor& given) override {
    group_.checked([&] {
      check_type("init", key, given);
      if (values_.contains(key)) throw InvalidArgument("init: key {} is there already", key.str());
    });
    group_.agree("init", fmt::format("key {} {}", key.str(), given.info().str()));
    Value value = place(key, given);
    group_.checked([&] {
      if (rank() == 0) requests_.init(key, value, as_float32(given));
    });
    group_.agree("init", fmt::format("key {}", key.str()));
    values_.emplace(key, std::move(value));
  }

  void push(const Key& key, const std::vector<Tensor>& given) override {
    check_pushed(key, given);
    Value& value = find("push", key);
    requests_.wait_for_push(value);
    pushed_ = true;
    requests_.push(key, value, all_dense(given));
  }

  using KVStore::pull;
  Tensor pull(const Key& key) const override {
    Value& value = find("pull", key);
    if (!pace_.in_step) requests_.wait_for_push(value);
    std::vector<Pulling> pulls;
    requests_.ask_for(key, value, pulls);
    requests_.wait_for_push(value);
    return requests_.take(value, pulls);
  }

  void row_sparse_push(const Key& key, const RowSparse& given) override {
    Value& value = find("row_sparse_push", key);
    check_rows("row_sparse_push", key, value.info.shape, given.ids);
    check_shape("row_sparse_push", key, given.rows,
                rows_shape(value.info.shape, static_cast<std::int64_t>(given.ids.size())));
    requests_.wait_for_push(value);
    pushed_ = true;
    requests_.push_rows(key, value, given.ids, as_float32(given.rows));
  }

  RowSparse row_sparse_pull(const Key& key,
                            const std::vector<std::int64_t>& row_ids) const override {
    Value& value = find("row_sparse_pull", key);
    check_rows("row_sparse_pull", key, value.info.shape, row_ids);
    const std::vector<std::int64_t> ids = sorted_ids(row_ids);
    AskedRows asked = value.has_prefetched(ids)
                          ? *std::exchange(value.prefetched, {})
                          : requests_.ask_for_rows("row_sparse_pull", key, value, ids);
    requests_.wait_for_push(value);
    return requests_.take_rows(key, value, asked);
  }

  void row_sparse_prefetch(const Key& key,
                           const std::vector<std::int64_t>& row_ids) const override {
    Value& value = find("row_sparse_prefetch", key);
    check_rows("row_sparse_prefetch", key, value.info.shape, row_ids);
    value.prefetched =
        requests_.ask_for_rows("row_sparse_prefetch", key, value, sorted_ids(row_ids));
  }

  void set_optimizer(optim::OptimizerPtr rule, double rescale) override {
    group_.checked([&] {
      check_rule(rule);
      for (const auto& [key, value] : values_)
        if (rule->measures() && value.places.size() > 1)
          throw Unsupported(
              "set_optimizer: {} needs the norm of a whole value, and key {} lies on {} servers; "
              "expected set_optimizer before init",
              rule->name(), key.str(), value.places.size());
    });
    group_.agree("set_optimizer", fmt::format("{} ({})", rule->name(), rule->description()));
    group_.checked([&] {
      for (auto& [key, value] : values_) requests_.wait_for_push(value);
      if (rank() == 0)
        for_all_servers(Topic::set_rule, wire::SetRule{store_, wire::Rule::of(*rule), rescale},
                        "set_optimizer");
    });
    group_.agree("set_optimizer", "done");
    rule_ = std::move(rule);
  }

  void set_gradient_compression(const Compression& compression) override {
    if (pushed_)
      throw InvalidArgument(
          "set_gradient_compression: something was pushed already, expected it before");
    requests_.set_compression(compression);
  }

  void load_optimizer_states(const std::string& path) override {
    group_.checked([&] {
      check_has_rule("load_optimizer_states");
      if (rank() == 0) send_states(path, OptimizerStates::load(path, rule_->name()));
    });
    group_.agree("load_optimizer_states", path);
  }

  Staleness staleness() const override { return requests_.staleness(); }

 protected:
  // What is small goes in one message to each server.
  void push_all(const std::vector<PushedValues>& pushes) override {
    for (const auto& [key, values] : pushes) check_pushed(key, values);
    RequestBatches batches(servers_, Topic::batch, "push");
    for (const auto& [key, values] : pushes) {
      Value& value = find("push", key);
      if (!value.is_small() || values.size() > 1 || requests_.is_compressed()) {
        push(key, values);
        continue;
      }
      requests_.wait_for_push(value);
      pushed_ = true;
      requests_.push_small(key, value, all_dense(values)[0], batches);
    }
    batches.send();
  }

  std::vector<Tensor> pull_all(const std::vector<Key>& keys) const override {
    std::vector<Value*> values;
    for (const Key& key : keys) values.push_back(&find("pull", key));
    std::vector<std::vector<Pulling>> pulls(keys.size());
    RequestBatches batches(servers_, Topic::read_batch, "pull");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!pace_.in_step) requests_.wait_for_push(*values[i]);
      if (values[i]->is_small())
        requests_.ask_for_small(keys[i], *values[i], batches, pulls[i]);
      else
        requests_.ask_for(keys[i], *values[i], pulls[i]);
    }
    batches.send();
    for (Value* value : values) requests_.wait_for_push(*value);
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < keys.size(); ++i)
      results.push_back(requests_.take(*values[i], pulls[i]));
    return results;
  }

  // In step, what a push makes of a value comes with its answer.
  std::vector<Tensor> push_pull_all(const std::vector<PushedValues>& pushes) override {
    if (!pace_.in_step || requests_.is_compressed()) return KVStore::push_pull_all(pushes);
    for (const auto& [key, values] : pushes) check_pushed(key, values);
    pushed_ = true;
    RequestBatches batches(servers_, Topic::batch, "pushpull");
    std::deque<PushPulling> under_way;
    for (const auto& [key, values] : pushes) {
      Value& value = find("push", key);
      requests_.wait_for_push(value);
      PushPulling& one = under_way.emplace_back(&value, Tensor::empty(value.info.shape));
      requests_.start(key, all_dense(values), one, batches);
    }
    batches.send();
    for (PushPulling& one : under_way) requests_.finish(one);
    std::vector<Tensor> results;
    for (const PushPulling& one : under_way) {
      if (one.error) std::rethrow_exception(one.error);
      results.push_back(one.value->as_given(one.data));
    }
    return results;
  }

  OptimizerStates optimizer_states() const override {
    check_has_rule("save_optimizer_states");
    OptimizerStates states{std::string(rule_->name())};
    for (auto& [key, value] : values_) {
      requests_.wait_for_push(value);
      states.keys[key.str()] = requests_.read_state(key, value);
    }
    return states;
  }

 private:
  std::uint32_t worker() const { return static_cast<std::uint32_t>(group_.rank()); }

  template <class Message>
  void for_all_servers(Topic topic, const Message& message, const std::string& what,
                       std::chrono::milliseconds timeout = {}) {
    std::vector<ServerReply> replies;
    for (int server = 0; server < servers_.servers(); ++server)
      replies.push_back(servers_.request(server, topic, message, what, {}, 0, timeout));
    for (ServerReply& reply : replies) reply.wait();
  }

  Value& find(const char* what, const Key& key) const {
    const auto found = values_.find(key);
    if (found == values_.end())
      throw NotFound("{}: there is no key {}, expected init() before", what, key.str());
    return found->second;
  }

  Value place(const Key& key, const Tensor& given) const {
    Value value{.info = given.info()};
    const Shape& shape = value.info.shape;
    value.rows = shape.rank() == 0 ? 1 : static_cast<std::size_t>(shape[0]);
    value.width = row_width(shape);
    const bool may_split = rule_ == nullptr || !rule_->measures();
    for (const KeyRange& range :
         place_key(key.str(), value.rows, value.width, servers_.servers(), may_split))
      value.places.push_back({range});
    return value;
  }

  void check_pushed(const Key& key, const std::vector<Tensor>& given) const {
    const Value& value = find("push", key);
    if (given.empty()) throw InvalidArgument("push: key {}: no value", key.str());
    for (const Tensor& tensor : given) check_shape("push", key, tensor, value.info.shape);
  }

  void check_has_rule(const char* what) const {
    if (!rule_) throw InvalidArgument("{}: no optimizer, expected set_optimizer() before", what);
  }

  void send_states(const std::string& path, const OptimizerStates& states) {
    std::map<std::string, Value*> by_name;
    for (auto& [key, value] : values_) by_name[key.str()] = &value;
    for (const auto& [name, state] : states.keys) {
      if (!by_name.contains(name)) throw NotFound("{}: there is no key {}", path, name);
      const std::size_t count = by_name[name]->rows * by_name[name]->width;
      for (const std::vector<float>& slot : state.slots)
        if (slot.size() != count)
          throw InvalidArgument("{}: key {} has {} elements, expected {}", path, name, slot.size(),
                                count);
    }
    for (const auto& [name, state] : states.keys)
      requests_.write_state(name, *by_name[name], state);
  }

  const Pace pace_;
  mutable GroupSum group_;
  mutable ServerConnections servers_;
  const std::uint64_t store_;
  mutable ValueRequests requests_;
  mutable std::map<Key, Value> values_;
  optim::OptimizerPtr rule_;
  bool pushed_ = false;
};

}  // namespace

std::unique_ptr<KVStore> store_on_servers(const ServedJob& job, comm::Communicator* communicator,
                                          const Pace& pace) {
  return std::make_unique<StoreOnServers>(job, communicator, pace);
}

}  // namespace lockstep::kvstore
