// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/worlds.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/comm/transports/shm.h"
#include "lockstep/comm/transports/tcp.h"
#include "lockstep/comm/transports/ucx.h"
#include "lockstep/comm/transports/zmq.h"

namespace lockstep::comm {
namespace {

class InProcessWorld final : public World {
 public:
  explicit InProcessWorld(std::vector<std::string> hosts) : group_(std::move(hosts), 4096) {}
  std::unique_ptr<Transport> connect(int rank) override { return group_.connect(rank); }

 private:
  InProcessGroup group_;
};

class ShmWorld final : public World {
 public:
  explicit ShmWorld(int size) : options_{random_group(), 0, size} {}
  std::unique_ptr<Transport> connect(int rank) override {
    ShmOptions options = options_;
    options.rank = rank;
    return connect_shm(options);
  }

 private:
  ShmOptions options_;
};

// A coordinator in a process of its own, so that ranks may be threads as well as processes that are
// forked later: what has threads cannot go along.
class CoordinatorProcess {
 public:
  explicit CoordinatorProcess(const cluster::CoordinatorOptions& options) {
    int ends[2];
    if (::pipe(ends) != 0) throw IoError("pipe: failed");
    pid_ = ::fork();
    if (pid_ == 0) serve(options, ends[1]);
    ::close(ends[1]);
    char text[256] = {};
    const auto got = ::read(ends[0], text, sizeof text - 1);
    ::close(ends[0]);
    if (got <= 0) throw IoError("a coordinator did not start");
    endpoint_ = parse_endpoint(text);
  }
  ~CoordinatorProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  [[noreturn]] static void serve(const cluster::CoordinatorOptions& options, int pipe) {
    try {
      cluster::Coordinator coordinator(options);
      const std::string text = to_string(coordinator.endpoint());
      if (::write(pipe, text.data(), text.size()) > 0) coordinator.run();
    } catch (const std::exception&) {
      // The ranks have been told.
    }
    ::_exit(0);
  }

  pid_t pid_ = 0;
  Endpoint endpoint_;
};

// Ranks that meet over TCP, whatever they talk over afterwards. With `hosts` each rank believes to
// be on the host of that letter.
class RendezvousWorld final : public World {
 public:
  RendezvousWorld(int size, Connect* connect, std::string hosts = {})
      : size_(size),
        connect_(connect),
        hosts_(std::move(hosts)),
        coordinator_(coordinator_options()) {}
  std::unique_ptr<Transport> connect(int rank) override {
    cluster::RendezvousOptions options;
    options.coordinator = coordinator_.endpoint();
    options.secret = secret_;
    options.workers = size_;
    options.rank = rank;
    if (!hosts_.empty()) options.host = hosts_[static_cast<std::size_t>(rank)];
    cluster::Rendezvous rendezvous(options);
    return connect_(rendezvous.bootstrap());
  }

 private:
  cluster::CoordinatorOptions coordinator_options() const {
    cluster::CoordinatorOptions options;
    options.secret = secret_;
    options.workers = size_;
    return options;
  }

  int size_;
  Connect* connect_;
  std::string hosts_;
  std::string secret_ = make_secret();
  CoordinatorProcess coordinator_;
};

// Ranks 0 and 1 on a, 2 and 3 on b, ...
WorldKind two_on_a_host(const std::string& name, Connect* connect) {
  return {name, true, [=](int size) {
            std::string hosts;
            for (int rank = 0; rank < size; ++rank) hosts += static_cast<char>('a' + rank / 2);
            return std::make_unique<RendezvousWorld>(size, connect, hosts);
          }};
}

WorldKind between_hosts(const std::string& name, Connect* connect) {
  return {name, true, [=](int size) { return std::make_unique<RendezvousWorld>(size, connect); }};
}

}  // namespace

std::string random_group() {
  std::random_device random;
  return fmt::format("test-{:08x}{:08x}", random(), random());
}

std::unique_ptr<World> make_in_process_world(std::vector<std::string> hosts) {
  return std::make_unique<InProcessWorld>(std::move(hosts));
}

WorldKind make_hosts_kind(const std::string& hosts) {
  return {hosts, true,
          [=](int size) { return std::make_unique<RendezvousWorld>(size, connect_group, hosts); }};
}

std::vector<WorldKind> world_kinds() {
  const auto in_process = [](int size) {
    return make_in_process_world(std::vector<std::string>(static_cast<std::size_t>(size), "here"));
  };
  std::vector<WorldKind> kinds{
      {"in_process", false, in_process},
      {"shm", true, [](int size) { return std::make_unique<ShmWorld>(size); }},
      between_hosts("tcp", connect_tcp),
      two_on_a_host("shm_and_tcp", connect_group)};
  if (has_ucx()) kinds.push_back(between_hosts("ucx", connect_ucx));
  kinds.push_back(between_hosts("zmq", connect_zmq));
  kinds.push_back(two_on_a_host("shm_and_zmq", find_transport("zmq").connect));
  return kinds;
}

std::vector<WorldKind> world_kinds_that_fail() {
  std::vector<WorldKind> kinds = world_kinds();
  if (std::getenv("LOCKSTEP_TEST_UCX") == nullptr)
    std::erase_if(kinds, [](const WorldKind& kind) { return kind.name == "ucx"; });
  return kinds;
}

void run_ranks(const WorldKind& kind, int size, const std::function<void(Communicator&)>& body) {
  const std::unique_ptr<World> world = kind.make(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          Communicator communicator(world->connect(rank));
          body(communicator);
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::comm
