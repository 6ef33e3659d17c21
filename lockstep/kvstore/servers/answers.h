// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <span>

#include "lockstep/comm/messages/message_server.h"

namespace lockstep::kvstore {

// Where answers to requests go.
class Answers {
 public:
  virtual ~Answers() = default;
  virtual void reply(const comm::MessageEvent& request, comm::Payload payload, int priority) = 0;
  virtual void fail(const comm::MessageEvent& request, const std::string& why) = 0;
  // Memory for floats of a reply: whoever asked reads them where they are written, if it is on this
  // host.
  virtual comm::MessageBuffer allocate(const comm::MessageEvent& /*request*/, std::size_t bytes) {
    return comm::allocate_buffer(bytes);
  }
};

// A copy of the floats, as a part of an answer to the request.
inline void add_copy_for(const comm::MessageEvent& request, Answers& answers,
                         comm::Payload& payload, std::span<const float> floats) {
  const comm::MessageBuffer buffer = answers.allocate(request, floats.size_bytes());
  if (!floats.empty()) std::memcpy(buffer.bytes.data(), floats.data(), floats.size_bytes());
  payload.add(buffer);
}

// A request that is answered later: without what it brought.
inline comm::MessageEvent without_payload(comm::MessageEvent request) {
  request.payload = {};
  return request;
}

}  // namespace lockstep::kvstore
