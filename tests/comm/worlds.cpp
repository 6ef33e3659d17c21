// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/worlds.h"

#include <random>
#include <thread>

#include "lockstep/comm/transports/in_process.h"
#include "lockstep/comm/transports/shm.h"

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
  explicit ShmWorld(int size) : options_{random_job(), 0, size} {}
  std::unique_ptr<Transport> connect(int rank) override {
    ShmOptions options = options_;
    options.rank = rank;
    return connect_shm(options);
  }

 private:
  ShmOptions options_;
};

}  // namespace

std::string random_job() {
  std::random_device random;
  return fmt::format("test-{:08x}{:08x}", random(), random());
}

std::unique_ptr<World> make_in_process_world(std::vector<std::string> hosts) {
  return std::make_unique<InProcessWorld>(std::move(hosts));
}

std::vector<TransportKind> transport_kinds() {
  const auto in_process = [](int size) {
    return make_in_process_world(std::vector<std::string>(static_cast<std::size_t>(size), "here"));
  };
  return {{"in_process", false, in_process},
          {"shm", true, [](int size) { return std::make_unique<ShmWorld>(size); }}};
}

void run_ranks(const TransportKind& kind, int size,
               const std::function<void(Communicator&)>& body) {
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
