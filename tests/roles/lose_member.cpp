// SPDX-License-Identifier: Apache-2.0
// A user's program whose servers wait for the workers' end, but for what its first word asks of
// one member: "killed" and "failing" servers, a "hanging" one, a "failing-worker". A second word,
// "tolerant", has the others do without a server.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "lockstep/cluster/membership/job.h"

using namespace lockstep;

namespace {

constexpr auto kPause = std::chrono::milliseconds(10);

void be_server(cluster::Job& job, const std::string& what) {
  if (job.rank() == 1 && what == "killed") ::raise(SIGKILL);
  if (job.rank() == 1 && what == "failing") throw std::runtime_error("I fail");
  while (what == "hanging" || !job.have_workers_left()) std::this_thread::sleep_for(kPause);
  fmt::print("the workers have left\n");
}

void be_worker(cluster::Job& job, const std::string& what) {
  if (job.rank() == 0 && what == "failing-worker") throw std::runtime_error("I fail");
  std::vector<std::int64_t> absent;
  const bool waits = what == "killed" || what == "failing";
  do absent = job.query(std::chrono::seconds(10)).absent;
  while (waits && absent.empty());
  try {
    job.communicator().barrier();
  } catch (const comm::CommError& error) {
    job.complain(error);  // so that not who ends first is to blame
    throw;
  }
  for (const std::int64_t id : absent)
    if (waits) fmt::print("member {} is absent\n", id);
}

}  // namespace

int main(int count, char** words) try {
  const std::string what = count > 1 ? words[1] : "";
  cluster::JobOptions options;
  options.tolerates_lost_servers = count > 2;
  cluster::Job job(cluster::find_place().value(), options);
  fmt::print("{} {} has pid {}\n", to_string(job.role()), job.rank(), ::getpid());
  std::fflush(stdout);
  job.role() == Role::worker ? be_worker(job, what) : be_server(job, what);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "lose_member: {}\n", error.what());
  return 1;
}
