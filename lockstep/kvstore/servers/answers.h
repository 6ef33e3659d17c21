// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/messages/message_server.h"

namespace lockstep::kvstore {

// Where answers to requests go.
class Answers {
 public:
  virtual ~Answers() = default;
  virtual void reply(const comm::MessageEvent& request, comm::Payload payload, int priority) = 0;
  virtual void fail(const comm::MessageEvent& request, const std::string& why) = 0;
};

// A request that is answered later: without what it brought.
inline comm::MessageEvent without_payload(comm::MessageEvent request) {
  request.payload = {};
  return request;
}

}  // namespace lockstep::kvstore
