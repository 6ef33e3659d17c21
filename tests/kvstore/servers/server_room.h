// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/errors.h"
#include "lockstep/comm/messages/message_hub.h"
#include "lockstep/kvstore/servers/served_job.h"
#include "tests/kvstore/as_ranks.h"

namespace lockstep::testing {

// A registry of one process.
class ProcessRegistry {
 public:
  kvstore::Registry functions() {
    return {[this](const std::string& name, const std::string& text) {
              const std::lock_guard lock(mutex_);
              texts_[name] = text;
              changed_.notify_all();
            },
            [this](const std::string& name, comm::Deadline deadline) {
              std::unique_lock lock(mutex_);
              if (!changed_.wait_until(lock, deadline, [&] { return texts_.contains(name); }))
                throw comm::Timeout("registry: nobody has put " + name, -1, "", "get");
              return texts_[name];
            },
            [this](const std::string& name, std::int64_t expected, const std::string& text) {
              const std::lock_guard lock(mutex_);
              kvstore::Registry::Entry& entry = entries_[name];
              if (entry.version == expected) entry = {expected + 1, text};
              return entry;
            }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, kvstore::Registry::Entry> entries_;
};

// Servers that live in threads of this process, in memory or on loopback.
class ServerRoom {
 public:
  enum class Links { memory, network };
  // Where others are to look for a server, of its own place; empty: there.
  using Route = std::function<std::string(const kvstore::ServedJob& job, const std::string& place)>;
  ServerRoom(int servers, int workers, Links links = Links::memory, int threads = 1,
             int replicas = 1, const Route& route = {}, bool survives = false)
      : stops_(static_cast<std::size_t>(servers)) {
    job_.servers = servers;
    job_.workers = workers;
    job_.replicas = replicas;
    job_.survives = survives;
    job_.secret = "secret";
    job_.timeout = std::chrono::seconds(30);
    job_.registry = registry_.functions();
    if (links == Links::memory) job_.hub = std::make_shared<comm::MessageHub>();
    if (route)
      job_.registry.put = [this, route, put = job_.registry.put](const std::string& name,
                                                                 const std::string& place) {
        put(name, route(job_, place));
      };
    for (int number = 0; number < servers; ++number)
      threads_.emplace_back([this, number, threads] {
        kvstore::ServerOptions options;
        options.number = number;
        options.threads = threads;
        options.stops = [this, number] { return stops_[static_cast<std::size_t>(number)].load(); };
        options.grace = std::chrono::hours(1);
        kvstore::serve(job_, options);
      });
  }
  ~ServerRoom() {
    for (auto& stop : stops_) stop = true;
  }

  const kvstore::ServedJob& job() const { return job_; }
  // From then on it is not there any more.
  void end(int server) {
    stops_[static_cast<std::size_t>(server)] = true;
    threads_[static_cast<std::size_t>(server)].join();
  }

  // Runs `work` as each of the workers, all at once, with its mode.
  template <class Work>
  void as_workers(const Work& work, const kvstore::ServedOptions& options = {}) {
    as_ranks(job_.workers, [&](comm::Communicator& communicator) {
      const auto mode =
          kvstore::ps_mode(job_, &communicator, cluster::workers_of(communicator), options);
      work(*mode);
    });
  }

  // The same with workers that are not in step.
  template <class Work>
  void as_workers_out_of_step(const Work& work, const kvstore::OutOfStepOptions& options = {}) {
    as_ranks(job_.workers, [&](comm::Communicator& communicator) {
      const auto mode = kvstore::out_of_step_mode(job_, &communicator,
                                                  cluster::workers_of(communicator), options);
      work(*mode);
    });
  }

 private:
  ProcessRegistry registry_;
  kvstore::ServedJob job_;
  std::vector<std::atomic<bool>> stops_;  // by server
  std::vector<std::jthread> threads_;
};

}  // namespace lockstep::testing
