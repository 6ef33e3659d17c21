// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace lockstep::comm {

namespace detail {
struct HubState;
}

// Where message servers and clients of one process find each other without a network. Addresses are
// any words; nothing is ever silent here, and nothing is encrypted.
class MessageHub {
 public:
  MessageHub();
  ~MessageHub();
  MessageHub(const MessageHub&) = delete;
  MessageHub& operator=(const MessageHub&) = delete;

  detail::HubState& state() { return *state_; }

 private:
  std::unique_ptr<detail::HubState> state_;
};

}  // namespace lockstep::comm
