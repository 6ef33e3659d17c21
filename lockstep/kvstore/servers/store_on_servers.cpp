// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/store_on_servers.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/hmac.h"
#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/servers/placement.h"
#include "lockstep/kvstore/servers/request_batch.h"
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

// A key's rows on one server, and how far this worker has come with them.
struct Place {
  KeyRange range;
  std::uint64_t clock = 0, version = 0;
  std::vector<PendingAnswer> pushes = {};  // of one push, its parts
};

// Rows that a worker has asked for, after so many pushes of its own.
struct AskedRows {
  std::vector<std::int64_t> ids = {};
  std::uint64_t clock = 0;
  std::vector<std::pair<Place*, ServerReply>> replies = {};
};

struct Value {
  TensorInfo info;  // as given to init
  std::size_t rows = 1, width = 1;
  std::vector<Place> places = {};
  std::vector<float> residual = {};  // of a compressed one
  std::optional<AskedRows> prefetched = {};
};

// Floats of a place that come in one answer.
struct Pulling {
  Place* place;
  std::size_t begin, count;  // of the value's floats
  PendingAnswer answer;
};

// The tensor itself, where its floats lie in a row here.
Tensor as_dense_float32(const Tensor& tensor) {
  const bool is_dense =
      tensor.dtype() == DType::float32 && tensor.is_contiguous() && tensor.device().is_host();
  return is_dense ? tensor : as_float32(tensor);
}

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
    std::vector<Tensor> tensors;
    for (const Tensor& tensor : given) tensors.push_back(as_dense_float32(tensor));
    if (compression_.is_none())
      for (Place& its : value.places) send_floats(key, value, its, tensors);
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
      if (!is_small(value) || values.size() > 1 || !compression_.is_none()) {
        push(key, values);
        continue;
      }
      wait_for_push(value);
      pushed_ = true;
      Place& its = value.places[0];
      batches.add(its.range.server, Topic::push, push_of(key, its), "push of key " + key.str(),
                  floats(as_dense_float32(values[0])), [&its](PendingAnswer answer) {
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
      if (!is_small(*values[i])) {
        pulls[i] = ask_for(keys[i], *values[i]);
        continue;
      }
      Place& its = values[i]->places[0];
      batches.add(its.range.server, Topic::pull, wire::Pull{clock_of(keys[i], its)},
                  "pull of key " + keys[i].str(), {}, [&, i](PendingAnswer answer) {
                    pulls[i].push_back({&values[i]->places[0], 0, count_of(*values[i]), answer});
                  });
    }
    batches.send();
    for (Value* value : values) wait_for_push(*value);
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < keys.size(); ++i) results.push_back(take(*values[i], pulls[i]));
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
        const auto [begin, count] = floats_at_place(value, its);
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

  static std::pair<std::size_t, std::size_t> floats_at_place(const Value& value, const Place& its) {
    return {its.range.row * value.width, its.range.rows * value.width};
  }
  static std::optional<std::uint64_t> local_row(const Place& its, std::int64_t id) {
    const auto row = static_cast<std::size_t>(id);
    if (row < its.range.row || row >= its.range.row + its.range.rows) return {};
    return row - its.range.row;
  }
  static Tensor as_given(const Tensor& data, const Value& value) {
    Tensor result = Tensor::empty(data.shape(), value.info.dtype);
    result.assign(data);
    return result;
  }

  void send_value(const Key& key, const Value& value, const Tensor& data) {
    for (const Place& its : value.places) {
      const auto [begin, count] = floats_at_place(value, its);
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

  static std::size_t count_of(const Value& value) { return value.rows * value.width; }
  static bool is_small(const Value& value) {
    return value.places.size() == 1 && RequestBatches::takes(count_of(value));
  }

  // How the floats of a place are cut, where each worker has them in step: offsets and counts.
  std::vector<std::pair<std::size_t, std::size_t>> parts_of(std::size_t count) const {
    if (!pace_.in_step || count <= wire::kFloatsAtOnce) return {{0, count}};
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t offset = 0; offset < count; offset += wire::kFloatsAtOnce)
      parts.emplace_back(offset, std::min<std::size_t>(wire::kFloatsAtOnce, count - offset));
    return parts;
  }

  // While the server is busy with a part, the next one is copied to where it will read it.
  void send_floats(const Key& key, const Value& value, Place& its,
                   const std::vector<Tensor>& tensors) {
    const std::size_t begin = its.range.row * value.width;
    wire::Push request = push_of(key, its);
    const auto parts = parts_of(its.range.rows * value.width);
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
      its.pushes.emplace_back(servers_.request(its.range.server, Topic::push, request,
                                               "push of key " + key.str(), payload));
    }
    ++its.clock;
  }

  void send_code(const Key& key, Value& value, const Tensor& sum) {
    for (Place& its : value.places) {
      const auto [begin, count] = floats_at_place(value, its);
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
      const auto parts = parts_of(its.range.rows * value.width);
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
    return value.info.dtype == DType::float32 ? data : as_given(data, value);
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
    result.rows = as_given(rows, value);
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

  static Tensor sum_of(const std::vector<Tensor>& tensors) {
    std::vector<std::span<const float>> values;
    for (const Tensor& tensor : tensors) values.emplace_back(floats(tensor));
    Tensor sum = Tensor::empty(tensors[0].shape());
    sum_in_tree(values, floats(sum));
    return sum;
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
        const auto [begin, count] = floats_at_place(*by_name[name], its);
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
