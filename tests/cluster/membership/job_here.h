// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"

namespace lockstep::testing {

// A coordinator and all members of its job, in this process: the workers, then the servers.
class JobHere {
 public:
  JobHere(int workers, int servers) : coordinator_(options_of(workers, servers)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        coordinator_.run(stop);
      } catch (const Error&) {
        return;
      }
    });
    members.resize(static_cast<std::size_t>(workers + servers));
    std::vector<std::jthread> joining;
    for (int id = 0; id < workers + servers; ++id)
      joining.emplace_back([=, this] {
        cluster::RendezvousOptions own;
        own.coordinator = coordinator_.endpoint();
        own.secret = "open sesame";
        own.workers = workers;
        own.servers = servers;
        own.role = id < workers ? Role::worker : Role::server;
        own.rank = id < workers ? id : id - workers;
        own.host = "here";
        members[static_cast<std::size_t>(id)] = std::make_unique<cluster::Rendezvous>(own);
      });
  }

 private:
  static cluster::CoordinatorOptions options_of(int workers, int servers) {
    cluster::CoordinatorOptions options;
    options.secret = "open sesame";
    options.workers = workers;
    options.servers = servers;
    return options;
  }

  cluster::Coordinator coordinator_;
  std::jthread thread_;

 public:
  std::vector<std::unique_ptr<cluster::Rendezvous>> members;
};

}  // namespace lockstep::testing
