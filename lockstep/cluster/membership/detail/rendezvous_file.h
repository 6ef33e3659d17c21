// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "lockstep/cluster/membership/detail/coordinator_thread.h"

namespace lockstep::cluster::detail {

// An invitation in a folder that all members see. Only its owner can read it (mode 0600); it
// appears whole, replaces an older one, and goes away with this object.
class RendezvousFile {
 public:
  // Throws IoError, NotFound.
  RendezvousFile(std::string path, const Invitation& invitation);
  ~RendezvousFile();
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

 private:
  std::string path_;
};

struct Found {
  comm::Endpoint coordinator;
  std::string secret;
};

// Waits until the file is there and its coordinator proves its secret: a file that an older attempt
// left behind is read again and again. A file of another user's, or that others may read, is not
// believed. Throws Timeout, which names the file and what was wrong with it last.
Found await_rendezvous_file(const std::string& path, std::chrono::milliseconds timeout);

}  // namespace lockstep::cluster::detail
