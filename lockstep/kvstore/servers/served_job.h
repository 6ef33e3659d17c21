// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/messages/message_options.h"
#include "lockstep/comm/socket.h"
#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// Where the members of a job leave short texts for each other, as at its coordinator.
struct Registry {
  std::function<void(const std::string& name, const std::string& text)> put = {};
  // Waits until it is there. Throws comm::Timeout.
  std::function<std::string(const std::string& name, comm::Deadline deadline)> get = {};
  // What a name holds; versions count from 1, and nothing has version 0.
  struct Entry {
    std::int64_t version = 0;
    std::string text = {};
  };
  // Puts the text where the version is the expected one, and tells what is there then. Of several
  // who expect the same version one wins. Needed where there are replicas.
  std::function<Entry(const std::string& name, std::int64_t expected, const std::string& text)>
      compare_and_set = {};
};

// A job that has parameter servers, as each of its members knows it.
struct ServedJob {
  int servers = 1, workers = 1;
  // On how many servers everything is kept: 1, or 2, so that one of them may be lost.
  int replicas = 1;
  // Workers come and go, and the job goes on: who is there is the coordinator's matter, and a new
  // epoch of a table tells its servers.
  bool survives = false;
  // Of a worker: called while it waits for a server. What it throws ends the wait.
  std::function<void()> check = {};
  std::string secret = {};
  bool encrypted = false;
  Registry registry = {};  // servers put "server/0" there: host:port
  std::chrono::milliseconds timeout{60'000};
  std::shared_ptr<comm::Meter> meter = nullptr;  // of a worker; null: nothing is measured
  // In place of the network: for members of one process.
  std::shared_ptr<comm::MessageHub> hub = nullptr;
};

struct ServerOptions {
  int number = 0;  // of this server, from 0
  // Port 0 takes a free one. What others find in the registry is this host, unless `host` says
  // another.
  comm::Endpoint listen{"127.0.0.1", 0};
  comm::PortRange ports = {};  // of which a free one is taken
  std::string host = {};
  int threads = 1;
  // The most that workers may have kept here.
  std::size_t most_bytes = std::size_t{64} << 30;
  // Asked every now and then.
  std::function<bool()> stops = {};
  // For workers that have left to come back: one may use a store, and then train.
  std::chrono::milliseconds grace{5'000};
};

// What a server's process does: answers until every worker of the job has been there and left, or
// `stops` says so.
void serve(const ServedJob& job, const ServerOptions& options);

struct ServedOptions {
  Compression compression = {};
};

// Weights are kept and updated by the job's servers, in step with each other: sums are in the
// canonical tree's order, so the bits are those of one process. The communicator, of the
// membership's workers, outlives the mode; null: there is one worker. Every worker makes one, which
// waits for all servers. Throws comm::Timeout, Refused.
std::unique_ptr<Mode> ps_mode(const ServedJob& job, comm::Communicator* communicator,
                              const Membership& membership, const ServedOptions& options = {});

// Of a worker that comes to a job that is under way, until it is in a membership: it can compute,
// and has no weights of its own.
std::unique_ptr<Mode> latecomers_mode(const ServedOptions& options = {});
// The same with workers that are not in step.
std::unique_ptr<Mode> latecomers_mode_out_of_step();

struct OutOfStepOptions {
  // No ticket is dealt whose step is so many ahead of the oldest one under way.
  std::uint64_t bound = ~std::uint64_t{0};
  // Whether gradients count for less the older their weights are: the learning rate is divided by
  // the number of workers, which is how old they are on average, and one that is older still counts
  // for as much less. Late gradients act like momentum that nobody asked for; at the whole rate,
  // with a rule that has momentum, the loss may leap.
  bool damps_stale = true;
};

// The same with workers that are not in step (Mode::out_of_step): servers apply the gradient of
// each ticket as it comes.
std::unique_ptr<Mode> out_of_step_mode(const ServedJob& job, comm::Communicator* communicator,
                                       const Membership& membership,
                                       const OutOfStepOptions& options = {});

}  // namespace lockstep::kvstore
