// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/process.h"
#include "lockstep/cluster/membership/store.h"
#include "lockstep/comm/socket.h"
#include "tests/temporary_folder.h"

namespace lockstep::cluster {

// Servers of one etcd on this machine, which go with this object.
class EtcdServers {
 public:
  static bool are_installed() {
    return ::access("/usr/bin/etcd", X_OK) == 0 || ::access("/usr/local/bin/etcd", X_OK) == 0;
  }

  explicit EtcdServers(int count) {
    std::string cluster;
    std::vector<std::string> peers;
    for (int i = 0; i < count; ++i) {
      clients_.push_back(fmt::format("127.0.0.1:{}", free_port()));
      peers.push_back(fmt::format("http://127.0.0.1:{}", free_port()));
      cluster += fmt::format("{}s{}={}", i == 0 ? "" : ",", i, peers.back());
    }
    for (int i = 0; i < count; ++i) start(i, peers[static_cast<std::size_t>(i)], cluster);
    await();
  }

  std::string address() const {
    std::string text = "etcd://";
    for (const std::string& one : clients_) text += (text.back() == '/' ? "" : ",") + one;
    return text;
  }
  void kill(std::size_t number) { servers_[number].end(); }

 private:
  static std::uint16_t free_port() {
    return comm::local_endpoint(comm::listen_on({"127.0.0.1", 0})).port;
  }

  void start(int number, const std::string& peer, const std::string& cluster) {
    const std::string client = "http://" + clients_[static_cast<std::size_t>(number)];
    const std::string folder = fmt::format("{}/server{}", folder_.path(), number);
    StartOptions options;
    options.output = options.errors = kNoStream;
    options.own_group = true;
    options.death_signal = SIGKILL;
    servers_.push_back(Process::start(
        {"etcd", "--name", fmt::format("s{}", number), "--data-dir", folder, "--listen-client-urls",
         client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
         "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster},
        options));
  }

  void await() const {
    constexpr auto kLongest = std::chrono::seconds(60);
    open_store(address())->get("any", comm::Clock::now() + kLongest);
  }

  testing::TemporaryFolder folder_;
  std::vector<std::string> clients_;
  std::vector<Process> servers_;
};

}  // namespace lockstep::cluster
