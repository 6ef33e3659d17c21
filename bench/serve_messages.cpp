// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "bench/messages_bench.h"
#include "bench/responder.h"
#include "lockstep/base/hmac.h"
#include "lockstep/base/print_error.h"
#include "lockstep/comm/messages/message_server.h"

namespace lockstep::bench {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);  // whether this is over

std::byte value(std::size_t i) { return static_cast<std::byte>(i * 31 + i / 251); }

// Of the values: "OFFSET BYTES", as far as there are any.
std::span<const std::byte> asked_for(const comm::Payload& payload,
                                     std::span<const std::byte> values) {
  const std::string text = payload.text();
  const char* end = text.data() + text.size();
  std::size_t offset = 0, bytes = 0;
  const char* next = std::from_chars(text.data(), end, offset).ptr;
  std::from_chars(std::min(next + 1, end), end, bytes);
  offset = std::min(offset, values.size());
  return values.subspan(offset, std::min(bytes, values.size() - offset));
}

void serve(comm::MessageServer& server, const std::stop_token& stop) {
  const std::vector<std::byte> values = message_values(kLongestPush);
  while (!stop.stop_requested()) {
    const auto event = server.receive(comm::Clock::now() + kLook);
    if (!event || event->kind != comm::MessageEvent::Kind::request) continue;
    switch (static_cast<MessageTopic>(event->topic)) {
      case MessageTopic::push: server.reply(*event, comm::Payload("taken")); break;
      case MessageTopic::check:
        server.reply(*event, comm::Payload(are_message_values(event->payload) ? kRight : "wrong"));
        break;
      case MessageTopic::pull:
        server.reply(*event, comm::Payload().add(asked_for(event->payload, values), nullptr));
    }
  }
}

}  // namespace

std::vector<std::byte> message_values(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = value(i);
  return values;
}

bool are_message_values(const comm::Payload& payload) {
  std::size_t i = 0;
  for (const comm::Payload::Segment& segment : payload.segments(0))
    for (const std::byte byte : segment.bytes)
      if (byte != value(i++)) return false;
  return true;
}

int serve_messages(const MessagesSide& side) try {
  comm::MessageServerOptions options;
  options.secret = make_secret();
  options.shared_memory = side.shared_memory;
  comm::MessageServer server(options);
  const Json ready{{"port", server.endpoint().port}, {"secret", options.secret}};
  fmt::print("{}\n", ready.dump());
  std::fflush(stdout);
  const std::jthread serving([&](const std::stop_token& stop) { serve(server, stop); });
  char block[256];
  while (::read(STDIN_FILENO, block, sizeof block) > 0) {
  }
  return 0;
} catch (const std::exception& error) {
  print_error("bench messages: {}\n", error.what());
  return 1;
}

}  // namespace lockstep::bench
