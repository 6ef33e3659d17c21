// SPDX-License-Identifier: Apache-2.0
// Gloo's side of `lockstep bench comm`: gloo_all_reduce_peer RANKS [--quick]
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/peers/all_reduce_peer.h"

namespace {

int run_rank(int rank, int ranks, bool quick, const std::string& folder) {
  gloo::transport::tcp::attr attr;
  attr.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attr);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  context->connectFullMesh(store, device);
  const auto all_reduce = [&](float* data, std::size_t count) {
    gloo::AllreduceOptions options(context);
    options.setOutput(data, count);
    void (*sum)(void*, const void*, const void*, std::size_t) = &gloo::sum<float>;
    options.setReduceFunction(sum);
    gloo::allreduce(options);
  };
  return peers::measure(rank, ranks, quick, all_reduce) ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 2;
  const bool quick = count > 2 && std::strcmp(arguments[2], "--quick") == 0;
  char folder[] = "/tmp/lockstep-gloo-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  for (int rank = 0; rank < ranks; ++rank)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int status = run_rank(rank, ranks, quick, folder);
      std::fflush(stdout);
      _exit(status);
    }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 1;
}
