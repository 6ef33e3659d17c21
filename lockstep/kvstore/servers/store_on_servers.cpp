// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/store_on_servers.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/hmac.h"
#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/servers/placed_value.h"
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

// A part of a tensor's floats, which it keeps.
comm::Payload& add_part(comm::Payload& payload, const Tensor& tensor, std::size_t begin,
                        std::size_t count) {
  return add_floats(payload, floats(tensor).subspan(begin, count),
                    std::make_shared<Tensor>(tensor));
}

class StoreOnServers final : public KVStore {
 public:
  StoreOnServers(const ServedJob& job, comm::Communicator* communicator, const Pace& pace)
      : pace_(pace), group_(communicator), servers_(job, group_.rank()) {
    store_ = group_.agree("create", std::string(pace.type), random_number())[0];
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
    for (auto& [key, value] : values_) wait_for_push(value);
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
      if (rank() == 0) send_value(key, value, as_float32(given));
    });
    group_.agree("init", fmt::format("key {}", key.str()));
    values_.emplace(key, std::move(value));
  }

  void push(const Key& key, const std::vector<Tensor>& given) override {
    check_pushed(key, given);
    Value& value = find("push", key);
    wait_for_push(value);
    pushed_ = true;
    const std::vector<Tensor> tensors = all_dense(given);
    if (compression_.is_none())
      for (Place& its : value.places)
        send_floats(key, value, its, tensors, push_of(key, its),
                    [&](PendingAnswer answer, std::size_t, std::size_t) {
                      its.pushes.push_back(std::move(answer));
                    });
    else
      send_code(key, value, sum_of(tensors));
  }

  using KVStore::pull;
  Tensor pull(const Key& key) const override {
    Value& value = find("pull", key);
    if (!pace_.in_step) wait_for_push(value);
    std::vector<Pulling> pulls = ask_for(key, value);
    wait_for_push(value);
    return take(value, pulls);
  }

  void row_sparse_push(const Key& key, const RowSparse& given) override {
    Value& value = find("row_sparse_push", key);
    check_rows("row_sparse_push", key, value.info.shape, given.ids);
    check_shape("row_sparse_push", key, given.rows,
                rows_shape(value.info.shape, static_cast<std::int64_t>(given.ids.size())));
    wait_for_push(value);
    pushed_ = true;
    const Tensor rows = as_float32(given.rows);
    for (Place& its : value.places) {
      wire::PushRows request{
          .clock = next_clock(key, its), .in_step = pace_.in_step, .seen = its.version};
      const auto part = std::make_shared<std::vector<float>>();
      for (std::size_t i = 0; i < given.ids.size(); ++i) {
        const auto local = local_row(its, given.ids[i]);
        if (!local) continue;
        request.rows.push_back(*local);
        const auto row = floats(rows).subspan(i * value.width, value.width);
        part->insert(part->end(), row.begin(), row.end());
      }
      comm::Payload payload;
      add_floats(payload, *part, part);
      send_push(its, Topic::push_rows, request, "row_sparse_push of key " + key.str(), payload);
    }
  }

  RowSparse row_sparse_pull(const Key& key,
                            const std::vector<std::int64_t>& row_ids) const override {
    Value& value = find("row_sparse_pull", key);
    check_rows("row_sparse_pull", key, value.info.shape, row_ids);
    const std::vector<std::int64_t> ids = sorted_ids(row_ids);
    AskedRows asked = has_prefetched(value, ids) ? *std::exchange(value.prefetched, {})
                                                 : ask_for_rows("row_sparse_pull", key, value, ids);
    wait_for_push(value);
    return take_rows(key, value, asked);
  }

  void row_sparse_prefetch(const Key& key,
                           const std::vector<std::int64_t>& row_ids) const override {
    Value& value = find("row_sparse_prefetch", key);
    check_rows("row_sparse_prefetch", key, value.info.shape, row_ids);
    value.prefetched = ask_for_rows("row_sparse_prefetch", key, value, sorted_ids(row_ids));
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
      for (auto& [key, value] : values_) wait_for_push(value);
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
    codec_ = make_codec(compression);  // or InvalidArgument
    compression_ = compression;
  }

  void load_optimizer_states(const std::string& path) override {
    group_.checked([&] {
      check_has_rule("load_optimizer_states");
      if (rank() == 0) send_states(path, OptimizerStates::load(path, rule_->name()));
    });
    group_.agree("load_optimizer_states", path);
  }

  Staleness staleness() const override { return staleness_; }

 protected:
  // What is small goes in one message to each server.
  void push_all(const std::vector<PushedValues>& pushes) override {
    for (const auto& [key, values] : pushes) check_pushed(key, values);
    RequestBatches batches(servers_, Topic::batch, "push");
    for (const auto& [key, values] : pushes) {
      Value& value = find("push", key);
      if (!value.is_small() || values.size() > 1 || !compression_.is_none()) {
        push(key, values);
        continue;
      }
      wait_for_push(value);
      pushed_ = true;
      Place& its = value.places[0];
      batches.add(its.range.server, Topic::push, push_of(key, its), "push of key " + key.str(),
                  floats(all_dense(values)[0]), [&its](PendingAnswer answer) {
                    its.pushes.push_back(std::move(answer));
                    ++its.clock;
                  });
    }
    batches.send();
  }

  std::vector<Tensor> pull_all(const std::vector<Key>& keys) const override {
    std::vector<Value*> values;
    for (const Key& key : keys) values.push_back(&find("pull", key));
    std::vector<std::vector<Pulling>> pulls(keys.size());
    RequestBatches batches(servers_, Topic::read_batch, "pull");
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!pace_.in_step) wait_for_push(*values[i]);
      if (!values[i]->is_small()) {
        pulls[i] = ask_for(keys[i], *values[i]);
        continue;
      }
      Place& its = values[i]->places[0];
      batches.add(its.range.server, Topic::pull, wire::Pull{clock_of(keys[i], its)},
                  "pull of key " + keys[i].str(), {}, [&, i](PendingAnswer answer) {
                    pulls[i].push_back({&values[i]->places[0], 0, values[i]->floats(), answer});
                  });
    }
    batches.send();
    for (Value* value : values) wait_for_push(*value);
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < keys.size(); ++i) results.push_back(take(*values[i], pulls[i]));
    return results;
  }

  // In step, what a push makes of a value comes with its answer.
  std::vector<Tensor> push_pull_all(const std::vector<PushedValues>& pushes) override {
    if (!pace_.in_step || !compression_.is_none()) return KVStore::push_pull_all(pushes);
    for (const auto& [key, values] : pushes) check_pushed(key, values);
    pushed_ = true;
    RequestBatches batches(servers_, Topic::batch, "pushpull");
    std::deque<PushPulling> under_way;
    for (const auto& [key, values] : pushes) {
      Value& value = find("push", key);
      wait_for_push(value);
      PushPulling& one = under_way.emplace_back(&value, Tensor::empty(value.info.shape));
      start(key, all_dense(values), one, batches);
    }
    batches.send();
    for (PushPulling& one : under_way) finish(one);
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
      wait_for_push(value);
      OptimizerStates::OfKey& whole = states.keys[key.str()];
      for (const Place& its : value.places) {
        const comm::Payload reply =
            servers_.ask(its.range.server, Topic::read_state, wire::KeyState{store_, key.str()},
                         "save_optimizer_states of key " + key.str());
        whole.steps = message_in<wire::KeyState>(reply).steps;
        whole.slots.resize(reply.parts() - 1);
        const auto [begin, count] = value.floats_at(its);
        for (std::size_t k = 0; k < whole.slots.size(); ++k) {
          whole.slots[k].resize(value.rows * value.width);
          copy_floats(reply, k + 1, std::span(whole.slots[k]).subspan(begin, count));
        }
      }
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

  void send_value(const Key& key, const Value& value, const Tensor& data) {
    for (const Place& its : value.places) {
      const auto [begin, count] = value.floats_at(its);
      comm::Payload payload;
      add_part(payload, data, begin, count);
      servers_.ask(its.range.server, Topic::init_key,
                   wire::InitKey{store_, key.str(), its.range.rows, value.width},
                   "init of key " + key.str(), payload);
    }
  }

  wire::Clock clock_of(const Key& key, const Place& its) const {
    return {store_, key.str(), worker(), its.clock, pace_.bound};
  }
  wire::Clock next_clock(const Key& key, const Place& its) const {
    wire::Clock clock = clock_of(key, its);
    ++clock.count;
    return clock;
  }

  template <class Message>
  void send_push(Place& its, Topic topic, const Message& request, const std::string& what,
                 const comm::Payload& payload) {
    its.pushes.emplace_back(servers_.request(its.range.server, topic, request, what, payload));
    ++its.clock;
  }

  void check_pushed(const Key& key, const std::vector<Tensor>& given) const {
    const Value& value = find("push", key);
    if (given.empty()) throw InvalidArgument("push: key {}: no value", key.str());
    for (const Tensor& tensor : given) check_shape("push", key, tensor, value.info.shape);
  }

  wire::Push push_of(const Key& key, const Place& its) const {
    return {.clock = next_clock(key, its),
            .in_step = pace_.in_step,
            .seen = its.version,
            .compression = to_string(compression_)};
  }

  // How the floats of a place are cut, where each worker has them in step.
  Parts cut(std::size_t count) const { return pace_.in_step ? parts_of(count) : Parts{{0, count}}; }

  // While the server is busy with a part, the next one is copied to where it will read it. `sent`
  // gets each answer that will come, and which of the value's floats it is about.
  template <class Sent>
  void send_floats(const Key& key, const Value& value, Place& its,
                   const std::vector<Tensor>& tensors, wire::Push request, const Sent& sent) {
    const auto [begin, all] = value.floats_at(its);
    const auto parts = cut(all);
    for (const auto& [offset, count] : parts) {
      if (parts.size() > 1) {
        request.offset = offset;
        request.count = count;
      }
      comm::Payload payload;
      for (const Tensor& tensor : tensors) {
        const comm::MessageBuffer buffer =
            servers_.allocate(its.range.server, count * sizeof(float));
        const std::span<const float> own = floats(tensor).subspan(begin + offset, count);
        if (count > 0) std::memcpy(buffer.bytes.data(), own.data(), own.size_bytes());
        payload.add(buffer);
      }
      sent(servers_.request(its.range.server, Topic::push, request, "push of key " + key.str(),
                            payload),
           begin + offset, count);
    }
    ++its.clock;
  }

  void start(const Key& key, const std::vector<Tensor>& tensors, PushPulling& one,
             RequestBatches& batches) {
    for (Place& its : one.value->places) {
      wire::Push request = push_of(key, its);
      request.pulls = true;
      if (one.value->is_small() && tensors.size() == 1) {
        batches.add(its.range.server, Topic::push, request, "push of key " + key.str(),
                    floats(tensors[0]), [&one, &its](PendingAnswer answer) {
                      one.parts.push_back({&its, 0, one.value->floats(), std::move(answer)});
                      ++its.clock;
                    });
        continue;
      }
      send_floats(key, *one.value, its, tensors, request,
                  [&](PendingAnswer answer, std::size_t begin, std::size_t count) {
                    one.parts.push_back({&its, begin, count, std::move(answer)});
                    while (take_next(one, true)) {
                    }
                  });
    }
  }

  // False where there is none, or it has not come and is not waited for.
  bool take_next(PushPulling& one, bool only_if_done) const {
    if (one.taken == one.parts.size()) return false;
    Pulling& part = one.parts[one.taken];
    try {
      if (only_if_done && !part.answer.is_done()) return false;
      const comm::Payload reply = part.answer.wait([&] { one.send_lost_again(); });
      note_pulled(*part.place, message_in<wire::PushPulled>(reply).pulled);
      if (part.count > 0) copy_floats(reply, 1, floats(one.data).subspan(part.begin, part.count));
    } catch (const Error& failure) {
      if (dynamic_cast<const comm::RequestFailed*>(&failure) != nullptr)
        one.refused.insert(part.place);
      if (!one.error) one.error = std::current_exception();
    }
    ++one.taken;
    return true;
  }

  // As wait_for_push.
  void finish(PushPulling& one) const {
    while (take_next(one, false)) {
    }
    for (Place* its : one.refused) --its->clock, one.value->prefetched.reset();
    if (!one.error)
      for (std::size_t i = 0; i < one.value->places.size(); ++i) note_pushed({});
  }

  void send_code(const Key& key, Value& value, const Tensor& sum) {
    for (Place& its : value.places) {
      const auto [begin, count] = value.floats_at(its);
      comm::Payload payload;
      payload.add(code_of(value, sum, begin, count));
      send_push(its, Topic::push, push_of(key, its), "push of key " + key.str(), payload);
    }
  }

  std::vector<Pulling> ask_for(const Key& key, Value& value) const {
    std::vector<Pulling> pulls;
    for (Place& its : value.places) {
      const std::size_t begin = its.range.row * value.width;
      wire::Pull request{clock_of(key, its)};
      const auto parts = cut(value.floats_at(its).second);
      for (const auto& [offset, count] : parts) {
        if (parts.size() > 1) {
          request.offset = offset;
          request.count = count;
        }
        pulls.push_back(
            {&its, begin + offset, count,
             servers_.request(its.range.server, Topic::pull, request, "pull of key " + key.str())});
      }
    }
    return pulls;
  }

  // The next parts come while one is copied.
  Tensor take(const Value& value, std::vector<Pulling>& pulls) const {
    const Tensor data = Tensor::empty(value.info.shape);
    for (Pulling& one : pulls) {
      const comm::Payload reply = one.answer.wait();
      note_pulled(*one.place, message_in<wire::Pulled>(reply));
      if (one.count > 0) copy_floats(reply, 1, floats(data).subspan(one.begin, one.count));
    }
    return value.as_given(data);
  }

  static bool has_prefetched(const Value& value, const std::vector<std::int64_t>& ids) {
    return value.prefetched && value.prefetched->ids == ids &&
           value.prefetched->clock == value.places[0].clock;
  }

  AskedRows ask_for_rows(const char* what, const Key& key, Value& value,
                         const std::vector<std::int64_t>& ids) const {
    if (!pace_.in_step) wait_for_push(value);
    AskedRows asked{ids, value.places[0].clock};
    for (Place& its : value.places) {
      wire::PullRows request{.clock = clock_of(key, its)};
      for (const std::int64_t id : ids)
        if (const auto local = local_row(its, id)) request.rows.push_back(*local);
      if (!request.rows.empty())
        asked.replies.emplace_back(&its,
                                   servers_.request(its.range.server, Topic::pull_rows, request,
                                                    fmt::format("{} of key {}", what, key.str())));
    }
    return asked;
  }

  RowSparse take_rows(const Key& key, const Value& value, AskedRows& asked) const {
    RowSparse result{std::move(asked.ids), {}};
    const Tensor rows =
        Tensor::empty(rows_shape(value.info.shape, static_cast<std::int64_t>(result.ids.size())));
    std::span<float> rest = floats(rows);
    for (auto& [its, pending] : asked.replies) {
      const comm::Payload reply = pending.wait().payload;
      note_pulled(*its, message_in<wire::Pulled>(reply));
      if (reply.parts() != 2 || reply.size(1) > rest.size_bytes())
        throw Corrupt("row_sparse_pull: key {}: an answer that is no rows", key.str());
      const std::size_t count = reply.size(1) / sizeof(float);
      copy_floats(reply, 1, rest.first(count));
      rest = rest.subspan(count);
    }
    result.rows = value.as_given(rows);
    return result;
  }

  // A push that the server refused did not count. All are waited for before the first error is
  // thrown.
  void wait_for_push(Value& value) const {
    std::exception_ptr error;
    for (Place& its : value.places) {
      wire::Pushed pushed;
      bool is_done = !its.pushes.empty(), is_refused = false;
      for (PendingAnswer& answer : std::exchange(its.pushes, {})) try {
          pushed = message_in<wire::Pushed>(answer.wait());
        } catch (const Error& failure) {
          is_done = false;
          is_refused |= dynamic_cast<const comm::RequestFailed*>(&failure) != nullptr;
          if (!error) error = std::current_exception();
        }
      if (is_refused) --its.clock, value.prefetched.reset();
      if (is_done) note_pushed(pushed);
    }
    if (error) std::rethrow_exception(error);
  }

  void note_pushed(const wire::Pushed& pushed) const {
    ++staleness_.pushes;
    staleness_.total += pushed.staleness;
    staleness_.most = std::max(staleness_.most, pushed.staleness);
  }
  void note_pulled(Place& its, const wire::Pulled& pulled) const {
    its.version = pulled.version;
    if (its.clock > pulled.slowest)
      staleness_.most_ahead = std::max(staleness_.most_ahead, its.clock - pulled.slowest);
  }

  std::vector<std::byte> code_of(Value& value, const Tensor& sum, std::size_t begin,
                                 std::size_t count) const {
    std::span<float> kept;
    if (codec_->keeps_residual()) {
      value.residual.resize(value.rows * value.width);
      kept = std::span(value.residual).subspan(begin, count);
    }
    std::vector<std::byte> code(codec_->payload_bytes(count));
    codec_->encode(floats(sum).subspan(begin, count), kept, code);
    return code;
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
      for (const Place& its : by_name[name]->places) {
        const auto [begin, count] = by_name[name]->floats_at(its);
        comm::Payload payload;
        for (const std::vector<float>& slot : state.slots) {
          const auto part = std::make_shared<std::vector<float>>(
              slot.begin() + static_cast<std::ptrdiff_t>(begin),
              slot.begin() + static_cast<std::ptrdiff_t>(begin + count));
          add_floats(payload, *part, part);
        }
        servers_.ask(its.range.server, Topic::write_state,
                     wire::KeyState{store_, name, state.steps},
                     "load_optimizer_states of key " + name, payload);
      }
  }

  Pace pace_;
  mutable GroupSum group_;
  mutable ServerConnections servers_;
  std::uint64_t store_ = 0;
  mutable std::map<Key, Value> values_;
  optim::OptimizerPtr rule_;
  Compression compression_;
  std::unique_ptr<Codec> codec_;
  bool pushed_ = false;
  mutable Staleness staleness_;
};

}  // namespace

std::unique_ptr<KVStore> store_on_servers(const ServedJob& job, comm::Communicator* communicator,
                                          const Pace& pace) {
  return std::make_unique<StoreOnServers>(job, communicator, pace);
}

}  // namespace lockstep::kvstore
