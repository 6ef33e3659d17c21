// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/comm/messages/payload.h"

namespace lockstep::bench {

inline constexpr std::size_t kLongestPush = 32 << 20;

// What a request asks of the other side of bench messages, by its topic.
enum class MessageTopic : std::uint32_t {
  push,   // bytes come, a word goes
  check,  // the same; the word says whether they are message_values()
  pull,   // "OFFSET BYTES" come, those of message_values() go
};
inline constexpr const char* kRight = "right";

std::vector<std::byte> message_values(std::size_t bytes);
bool are_message_values(const comm::Payload& payload);

// The server's side of bench messages: prints where it listens and its secret, and serves until its
// standard input ends. The exit status.
struct MessagesSide {
  std::size_t shared_memory = 0;  // bytes
};
int serve_messages(const MessagesSide& side);

struct MessagesBenchOptions {
  bool json = false;
  bool quick = false;
  bool peer = true;                     // memcpy
  std::vector<std::string> paths = {};  // none: all
  std::vector<int> kilobytes = {};      // none: from 1 KB to 32 MB
};
std::vector<std::string> message_paths();
void run_messages(const MessagesBenchOptions& options);

}  // namespace lockstep::bench
