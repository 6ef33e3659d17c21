// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "lockstep/comm/messages/message_client.h"
#include "lockstep/comm/messages/message_hub.h"
#include "lockstep/comm/messages/message_server.h"

namespace lockstep::comm {

using namespace std::chrono_literals;

// A way for messages to travel: the suite runs on each.
struct MessageWorld {
  std::string name;
  bool encrypted = false, in_memory = false;
  std::size_t shared_memory = 0;
};

inline std::vector<MessageWorld> message_worlds() {
  const std::size_t shared = MessageOptions().shared_memory;
  return {{"memory", false, true},
          {"zmq"},
          {"curve", true},
          {"shared", false, false, shared},
          {"shared_curve", true, false, shared}};
}

inline MessageServerOptions server_options(const MessageWorld& world) {
  MessageServerOptions options;
  options.secret = "secret";
  options.encrypted = world.encrypted;
  options.shared_memory = world.shared_memory;
  if (world.in_memory) options.hub = std::make_shared<MessageHub>();
  return options;
}

inline MessageClientOptions client_options(const MessageServerOptions& server, const Endpoint& at) {
  MessageClientOptions options;
  static_cast<MessageOptions&>(options) = server;
  options.server = at;
  options.connect_timeout = 20s;
  return options;
}

// The next request; news of peers are passed over.
inline MessageEvent next_request(MessageServer& server) {
  const Deadline deadline = Clock::now() + 20s;
  while (auto event = server.receive(deadline))
    if (event->kind == MessageEvent::Kind::request) return *event;
  throw Timeout("no request came", -1, "", "test");
}

// The next news of a peer that are no request and no coming.
inline MessageEvent next_end(MessageServer& server) {
  const Deadline deadline = Clock::now() + 20s;
  while (auto event = server.receive(deadline))
    if (event->kind != MessageEvent::Kind::request && event->kind != MessageEvent::Kind::connected)
      return *event;
  throw Timeout("no peer went", -1, "", "test");
}

// Answers every request by `answer` in a thread of its own, until it goes.
class Answerer {
 public:
  Answerer(MessageServer& server, std::function<void(const MessageEvent&)> answer)
      : thread_([&server, answer = std::move(answer)](const std::stop_token& stop) {
          while (!stop.stop_requested())
            if (const auto event = server.receive(Clock::now() + 20ms);
                event && event->kind == MessageEvent::Kind::request)
              answer(*event);
        }) {}

 private:
  std::jthread thread_;
};

inline std::vector<std::byte> message_bytes(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(seed * 131 + i * 31 + i / 251);
  return bytes;
}

inline std::vector<std::byte> bytes_of(const Payload& payload, std::size_t part = 0) {
  std::vector<std::byte> bytes(payload.size(part));
  payload.copy_to(part, bytes);
  return bytes;
}

}  // namespace lockstep::comm
