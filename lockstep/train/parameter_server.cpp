// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/parameter_server.h"

#include <algorithm>
#include <charconv>

#include "lockstep/ops/instruction_set.h"

namespace lockstep::train {
namespace {

using comm::Clock;

constexpr const char* kInstructionSet = "instruction_set";
constexpr const char* kEncrypted = "servers/encrypted";
// Of this server, by its number.
std::string own_set_name(int server) { return fmt::format("instruction_set/server/{}", server); }

constexpr auto kLook = std::chrono::milliseconds(500);
constexpr auto kWholeJob = std::chrono::hours(10 * 365 * 24);

std::chrono::milliseconds time_until(comm::Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// Gradients of a job on several machines are not for others on the way.
bool has_several_machines(const Membership& membership) {
  return std::any_of(membership.members.begin(), membership.members.end(),
                     [&](const Member& one) { return one.host != membership.members[0].host; });
}

// The server whose address it is, so that nobody waits for one that is gone; -1: it is none.
std::int64_t putter_of(const std::string& name, const Membership& membership) {
  constexpr std::string_view kServer = "server/";
  int number = -1;
  if (name.starts_with(kServer))
    std::from_chars(name.data() + kServer.size(), name.data() + name.size(), number);
  for (const Member& one : membership.members)
    if (one.role == Role::server && membership.rank_of(one.id) == number) return one.id;
  return -1;
}

// A job that survives losses may go on, on machines that it did not begin with.
bool server_encrypts(cluster::Job& job) {
  return job.survives() || has_several_machines(job.membership());
}

// As the servers have said, who know all that the job began with.
bool are_encrypted(cluster::Job& job, std::chrono::milliseconds timeout) {
  if (job.role() == Role::server || !job.survives()) return server_encrypts(job);
  return job.get(kEncrypted, timeout).bytes == "yes";
}

kvstore::ServedJob served_job(cluster::Job& job, const ServersOptions& options) {
  kvstore::ServedJob served;
  served.servers = job.membership().count(Role::server);
  served.workers = job.membership().count(Role::worker);
  served.replicas = options.replicas;
  served.secret = job.secret();
  served.survives = job.survives();
  if (job.survives() && job.role() == Role::worker)
    served.check = [&job, generation = job.membership().generation] {
      job.check_goes_on(generation);
    };
  served.registry.put = [&job](const std::string& name, const std::string& text) {
    job.put(name, text);
  };
  served.registry.get = [&job](const std::string& name, comm::Deadline deadline) {
    return job.get(name, time_until(deadline), {.from = putter_of(name, job.membership())}).bytes;
  };
  served.registry.compare_and_set = [&job](const std::string& name, std::int64_t expected,
                                           const std::string& text) {
    cluster::ComparedEntry now = job.compare_and_set(name, expected, text);
    return kvstore::Registry::Entry{now.version, std::move(now.bytes)};
  };
  served.timeout = options.timeout;
  served.meter = job.meter();
  served.encrypted = are_encrypted(job, options.timeout);
  return served;
}

// The workers may take their time before they say it: they fetch data. Empty: they have left.
std::string await_instruction_set(cluster::Job& job) {
  while (!job.have_workers_left()) try {
      return job.get(kInstructionSet, kLook).bytes;
    } catch (const comm::Timeout&) {
      continue;
    }
  return {};
}

void take_instruction_set(const std::string& name, int server) {
  const InstructionSet wanted = parse_instruction_set(name), own = best_instruction_set();
  if (own < wanted)
    throw comm::Refused(fmt::format(
        "server {}: its processor has {}, the workers compute with {}: set LOCKSTEP_ISA={} for all "
        "members of the job",
        server, to_string(own), name, to_string(own)));
  limit_instruction_set(wanted);
}

}  // namespace

std::optional<InstructionSet> servers_instruction_set(cluster::Job& job,
                                                      std::chrono::milliseconds timeout) {
  std::optional<InstructionSet> least;
  const Membership membership = job.membership();
  for (const Member& one : membership.members) {
    if (one.role != Role::server) continue;
    const std::string name = own_set_name(membership.rank_of(one.id));
    const auto its = parse_instruction_set(job.get(name, timeout, {.from = one.id}).bytes);
    least = std::min(its, least.value_or(its));
  }
  return least;
}

kvstore::ServedJob servers_of(cluster::Job& job, const ServersOptions& options) {
  if (job.rank() == 0) job.put(kInstructionSet, std::string(to_string(settled_instruction_set())));
  return served_job(job, options);
}

void run_parameter_server(cluster::Job& job, const ServersOptions& options, int threads) {
  job.put(kEncrypted, server_encrypts(job) ? "yes" : "no");
  job.put(own_set_name(job.rank()), std::string(to_string(best_instruction_set())));
  const std::string instructions = await_instruction_set(job);
  if (instructions.empty()) return;
  take_instruction_set(instructions, job.rank());
  kvstore::ServerOptions own;
  own.number = job.rank();
  own.listen = {job.address(), 0};
  own.ports = job.ports();
  own.threads = threads;
  own.stops = [&job] { return job.have_workers_left(); };
  own.grace = kWholeJob;  // the coordinator knows who is still there
  kvstore::serve(served_job(job, options), own);
}

}  // namespace lockstep::train
