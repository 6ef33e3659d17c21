// SPDX-License-Identifier: Apache-2.0
// Gloo's side of `lockstep bench comm`: gloo_all_reduce_peer RANKS [--networks FIRST --networks
// SECOND] [--quick]. The networks are namespaces for the halves of the ranks.
#include <fcntl.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/peers/all_reduce_peer.h"

namespace {

struct Options {
  int ranks = 2;
  bool quick = false;
  std::vector<std::string> networks = {};
};

// Where a rank listens, once it is there.
std::string enter_network(const Options& options, int rank) {
  if (options.networks.empty()) return "127.0.0.1";
  const auto half = static_cast<std::size_t>(2 * rank / options.ranks);
  const int file = open(options.networks.at(half).c_str(), O_RDONLY | O_CLOEXEC);
  if (setns(file, CLONE_NEWNET) != 0) std::exit(1);
  return half == 0 ? "10.77.0.1" : "10.77.0.2";
}

int run_rank(int rank, const Options& given, const std::string& folder) {
  const int ranks = given.ranks;
  gloo::transport::tcp::attr attr;
  attr.hostname = enter_network(given, rank);
  auto device = gloo::transport::tcp::CreateDevice(attr);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  const auto all_reduce = [&](float* data, std::size_t count) {
    gloo::AllreduceOptions call(context);
    call.setOutput(data, count);
    void (*sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
    call.setReduceFunction(sum);
    gloo::allreduce(call);
  };
  return peers::measure(rank, ranks, given.quick, all_reduce) ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  if (count > 1) options.ranks = std::atoi(arguments[1]);
  for (int i = 2; i < count; ++i) {
    if (std::strcmp(arguments[i], "--quick") == 0) options.quick = true;
    if (std::strcmp(arguments[i], "--networks") == 0 && i + 1 < count)
      options.networks.emplace_back(arguments[i + 1]);
  }
  char folder[] = "/tmp/lockstep-gloo-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  for (int rank = 0; rank < options.ranks; ++rank)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int status = run_rank(rank, options, folder);
      std::fflush(stdout);
      _exit(status);
    }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 1;
}
