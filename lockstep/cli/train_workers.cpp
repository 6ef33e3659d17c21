// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_workers.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/worker.h"
#include "lockstep/cluster/local_launch.h"
#include "lockstep/comm/transports/shm.h"
#include "lockstep/kvstore/allreduce.h"

namespace lockstep::cli {
namespace {

// The words of our own command line.
std::vector<std::string> own_command() {
  const std::string bytes = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', begin), bytes.size());
    words.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  words[0] = program_path();
  return words;
}

std::string random_job() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// The one to blame: who was ended by a signal, else who failed first.
const cluster::WorkerEnd* first_failure(const std::vector<cluster::WorkerEnd>& ends) {
  const auto killed =
      std::find_if(ends.begin(), ends.end(), [](const auto& end) { return end.signal != 0; });
  if (killed != ends.end()) return &*killed;
  const auto failed =
      std::find_if(ends.begin(), ends.end(), [](const auto& end) { return !end.is_good(); });
  return failed != ends.end() ? &*failed : nullptr;
}

// All stopped by Ctrl-C or SIGTERM in the same way: that is the job's end too.
bool is_common(const std::vector<cluster::WorkerEnd>& ends) {
  return std::all_of(ends.begin(), ends.end(), [&](const auto& end) {
    return end.signal == 0 && end.status == ends[0].status && end.status > 128;
  });
}

}  // namespace

int launch_workers(const TrainOptions& options) {
  const std::string job = random_job();
  const std::vector<std::string> words = own_command();
  cluster::LocalLaunch launch;
  launch.workers = static_cast<int>(options.workers);
  launch.command = [&](int rank) {
    std::vector<std::string> command = words;
    command.insert(command.end(), {"--rank", std::to_string(rank), "--job", job});
    return command;
  };
  const std::vector<cluster::WorkerEnd> ends = cluster::launch_local(launch);
  comm::remove_shm(job);
  const cluster::WorkerEnd* failure = first_failure(ends);
  if (failure == nullptr) return 0;
  if (is_common(ends)) return failure->status;
  fmt::print(stderr, "lockstep: {}; the job is over\n", failure->str());
  return failure->status == 2 ? 2 : 1;
}

Workers connect_workers(const TrainOptions& options) {
  if (options.rank < 0) return {};
  comm::ShmOptions shm;
  shm.job = options.job;
  shm.rank = options.rank;
  shm.size = static_cast<int>(options.workers);
  Workers workers;
  workers.communicator = std::make_unique<comm::Communicator>(comm::connect_shm(shm));
  workers.exchange = kvstore::allreduce_exchange(*workers.communicator);
  return workers;
}

}  // namespace lockstep::cli
