// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/kvstore.h"
#include "lockstep/kvstore/optimizer_states.h"
#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/servers/pace.h"
#include "lockstep/kvstore/servers/placed_value.h"

namespace lockstep::kvstore {

// What a worker asks the servers of a store about its values, and what it makes of the answers. One
// thread at a time.
class ValueRequests {
 public:
  ValueRequests(ServerConnections& servers, const Pace& pace, std::uint64_t store,
                std::uint32_t worker)
      : servers_(servers), pace_(pace), store_(store), worker_(worker) {}

  // What pushes are made of, from now on.
  void set_compression(const Compression& compression);
  bool is_compressed() const { return !compression_.is_none(); }

  void init(const Key& key, const PlacedValue& value, const Tensor& data);

  // They return when everything is on its way; wait_for_push when it has arrived, or throws what
  // went wrong with it.
  void push(const Key& key, PlacedValue& value, const std::vector<Tensor>& tensors);
  void push_small(const Key& key, PlacedValue& value, const Tensor& tensor,
                  RequestBatches& batches);
  void push_rows(const Key& key, PlacedValue& value, const std::vector<std::int64_t>& ids,
                 const Tensor& rows);
  void wait_for_push(PlacedValue& value);

  // The answers are added to `pulls`, those of a small value when the batches are sent.
  void ask_for(const Key& key, PlacedValue& value, std::vector<Pulling>& pulls);
  void ask_for_small(const Key& key, PlacedValue& value, RequestBatches& batches,
                     std::vector<Pulling>& pulls);
  Tensor take(const PlacedValue& value, std::vector<Pulling>& pulls);

  // In step: what a push makes of a value comes with its answer.
  void start(const Key& key, const std::vector<Tensor>& tensors, PushPulling& one,
             RequestBatches& batches);
  void finish(PushPulling& one);

  AskedRows ask_for_rows(const char* what, const Key& key, PlacedValue& value,
                         const std::vector<std::int64_t>& ids);
  RowSparse take_rows(const Key& key, const PlacedValue& value, AskedRows& asked);

  OptimizerStates::OfKey read_state(const Key& key, const PlacedValue& value);
  void write_state(const std::string& key, const PlacedValue& value,
                   const OptimizerStates::OfKey& state);

  KVStore::Staleness staleness() const { return staleness_; }

 private:
  wire::Clock clock_of(const Key& key, const Place& its) const;
  wire::Clock next_clock(const Key& key, const Place& its) const;
  wire::Push push_of(const Key& key, const Place& its) const;
  Parts cut(std::size_t count) const;
  template <class Message>
  void send_push(Place& its, wire::Topic topic, const Message& request, const std::string& what,
                 const comm::Payload& payload);
  template <class Sent>
  void send_floats(const Key& key, const PlacedValue& value, Place& its,
                   const std::vector<Tensor>& tensors, wire::Push request, const Sent& sent);
  void send_code(const Key& key, PlacedValue& value, const Tensor& sum);
  std::vector<std::byte> code_of(PlacedValue& value, const Tensor& sum, std::size_t begin,
                                 std::size_t count) const;
  bool take_next(PushPulling& one, bool only_if_done);
  void note_pushed(const wire::Pushed& pushed);
  void note_pulled(Place& its, const wire::Pulled& pulled);

  ServerConnections& servers_;
  const Pace pace_;
  const std::uint64_t store_;
  const std::uint32_t worker_;
  Compression compression_;
  std::unique_ptr<Codec> codec_;
  KVStore::Staleness staleness_;
};

}  // namespace lockstep::kvstore
