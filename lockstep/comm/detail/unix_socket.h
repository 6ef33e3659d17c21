// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "lockstep/comm/socket.h"

namespace lockstep::comm::detail {

// Sockets between processes of one host whose names are no files: they vanish with their process.
struct UnixAddress {
  sockaddr_un name{};
  socklen_t length;
  explicit UnixAddress(const std::string& text);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Non-blocking, closed on exec; invalid, and errno, where there is none.
Socket make_unix_socket(int type);

// Whether the other end is a process of this user, or of root.
bool is_ours(const Socket& socket);

// Bytes and an open file with them. False, and errno, where they could not be sent.
bool send_with_file(const Socket& socket, std::string_view bytes, int file);

// What came with a message of SCM_RIGHTS, or -1.
int file_in(msghdr& message);

}  // namespace lockstep::comm::detail
