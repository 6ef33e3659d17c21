// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace lockstep::comm {

class MessageHub;
class Meter;

// For a request of one who does not know the generation yet: servers of every generation take it.
inline constexpr std::uint64_t kAnyGeneration = std::numeric_limits<std::uint64_t>::max();

// What a server and its clients have in common.
struct MessageOptions {
  std::string secret;      // the job's; a connection whose two ends do not prove it is refused
  bool encrypted = false;  // by CURVE, as --secure; both ends must say the same
  std::uint64_t generation = 0;
  // Each side says so often that it lives (a client as often as its server asks for, if that is
  // more), and a side that has said nothing for so long is silent.
  std::chrono::milliseconds heartbeat{1'000}, silence{10'000};
  // Whether a side that is silent is gone. Otherwise its connection stays, for as long as it is
  // open, and a server says who is silent and who is heard again.
  bool drops_silent = true;
  // The longest message, after authentication. Before it nobody is listened to for more than a
  // handshake, or a frame of Payload::kLongestSegment bytes.
  std::size_t longest_message = std::size_t{1} << 30;
  // Where a server and a client turn out to be on one host, long parts go through memory that both
  // see, of at most so many bytes each way (the less of what the two say; taken as it is used).
  // What finds no room in it goes through a socket. 0: none.
  std::size_t shared_memory = std::size_t{256} << 20;
  std::shared_ptr<Meter> meter = nullptr;  // of a client's process; null: nothing is measured
  // In place of the network: for servers and clients of one process.
  std::shared_ptr<MessageHub> hub = nullptr;
};

}  // namespace lockstep::comm
