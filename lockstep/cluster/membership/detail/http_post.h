// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/comm/socket.h"

namespace lockstep::cluster::detail {

struct HttpReply {
  int status = 0;
  std::string body = {};
};

// One request on a connection of its own, without encryption. Throws IoError, which names the
// server: nobody listens there, it did not answer until the deadline, or what it said is no HTTP.
HttpReply http_post(const comm::Endpoint& server, const std::string& path, const std::string& body,
                    comm::Deadline deadline);

}  // namespace lockstep::cluster::detail
