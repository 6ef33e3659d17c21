// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/server_state.h"
#include "lockstep/optim/optimizers.h"

using namespace lockstep;
using namespace lockstep::kvstore;

namespace {

struct NoAnswers final : Answers {
  void reply(const comm::MessageEvent&, comm::Payload, int) override { ++answered; }
  void fail(const comm::MessageEvent&, const std::string&) override { ++answered; }
  int answered = 0;
};

comm::MessageEvent event_of(wire::Topic topic, std::string message) {
  comm::MessageEvent event;
  event.topic = static_cast<std::uint32_t>(topic);
  event.payload.add(std::move(message));
  return event;
}

// A table and a store that requests may be about.
void prepare(ServerState& state) {
  const wire::MakeTable table{.table = "t",
                              .epoch = 1,
                              .shards = 2,
                              .parameters = {{20'000, 1.0, 1.0}},
                              .rule = wire::Rule::of(*optim::lamb({.clip_norm = 1.0})),
                              .compression = "none",
                              .tables = {{6, 2, 1.0, 1.0}}};
  state.handle(event_of(wire::Topic::make_table, wire::encode(table)));
  state.handle(event_of(wire::Topic::join_store, wire::encode(wire::JoinStore{1, 0})));
  comm::MessageEvent init =
      event_of(wire::Topic::init_key, wire::encode(wire::InitKey{1, "k", 4, 2}));
  init.payload.add(std::string(32, '\0'));
  state.handle(init);
}

}  // namespace

// Requests of any bytes have an answer or wait, and the server lives on. The input is a list: the
// kind of a request, the length of its message, the message, the length of its floats, the floats.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NoAnswers answers;
  ServerState state(2, std::size_t{1} << 20, 1, answers);
  prepare(state);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto take = [&](std::size_t count) {
    const std::string_view bytes = rest.substr(0, count);
    rest.remove_prefix(bytes.size());
    return std::string(bytes);
  };
  const auto take_length = [&] {
    std::uint16_t length = 0;
    const std::string bytes = take(sizeof length);
    std::memcpy(&length, bytes.data(), bytes.size());
    return length;
  };
  while (!rest.empty()) {
    const auto topic = static_cast<wire::Topic>(static_cast<unsigned char>(take(1)[0]));
    comm::MessageEvent event = event_of(topic, take(take_length()));
    if (const std::size_t floats = take_length(); floats > 0) event.payload.add(take(floats));
    state.handle(event);
  }
  state.worker_left(0);
  return 0;
}
