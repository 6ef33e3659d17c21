// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/membership/detail/host_list.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostTasks = 1 << 20;

// All members must come to the same one: srun gives all tasks the same environment, and clusters
// share home folders more often than any other.
std::filesystem::path rendezvous_folder() {
  if (const auto given = variable("LOCKSTEP_MEETING_DIR")) return *given;
  if (const auto home = variable("HOME")) return std::filesystem::path(*home) / ".lockstep";
  return std::filesystem::current_path();
}

// A job that is queued again keeps its number.
std::string rendezvous_name() {
  return fmt::format("slurm-{}.{}.{}", needed_variable("SLURM_JOB_ID", "SLURM_STEP_ID"),
                     needed_variable("SLURM_STEP_ID", "SLURM_PROCID"),
                     variable("SLURM_RESTART_COUNT").value_or("0"));
}

std::string make_rendezvous_path() {
  const std::filesystem::path folder = rendezvous_folder();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("{}: cannot be made: {}", folder.string(), error.message());
  return folder / rendezvous_name();
}

// The first node of the step that is not this one; empty when there is none.
std::string other_node() {
  const std::string own = variable("SLURMD_NODENAME").value_or("");
  for (const std::string& node : expand_host_list(variable("SLURM_STEP_NODELIST").value_or("")))
    if (node != own) return node;
  return {};
}

std::vector<std::string> own_addresses(const Place& place) {
  const std::string other = other_node();
  if (other.empty() && place.interface.empty()) return {"127.0.0.1"};
  return reachable_addresses(place.interface, other);
}

RendezvousPoint host_rendezvous(const Place& place, const CoordinatorOptions& own) {
  const std::vector<std::string> addresses = own_addresses(place);
  RendezvousPoint point{place};
  point.place.secret = make_secret();
  point.coordinator = std::make_unique<CoordinatorThread>(
      coordinator_of(place, own, {listen_address(addresses), 0}, point.place.secret));
  Invitation invitation{{}, point.place.secret};
  for (const std::string& address : addresses)
    invitation.endpoints.push_back({address, point.coordinator->port()});
  point.place.coordinator = invitation.endpoints[0];
  point.file = std::make_unique<RendezvousFile>(make_rendezvous_path(), invitation);
  return point;
}

}  // namespace

std::optional<Place> find_slurm_place() {
  // The script of sbatch has a SLURM_PROCID too, but it is not a step's.
  if (!variable("SLURM_STEP_ID") || !variable("SLURM_PROCID")) return std::nullopt;
  Place place;
  place.launcher = Place::Launcher::slurm;
  const int tasks =
      number_variable("SLURM_STEP_NUM_TASKS",
                      needed_variable("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"), 1, kMostTasks);
  take_task(place, number_variable("SLURM_PROCID", *variable("SLURM_PROCID"), 0, tasks - 1), tasks);
  place.interface = variable("LOCKSTEP_INTERFACE").value_or("");
  place.transport = variable("LOCKSTEP_TRANSPORT").value_or("");
  return tasks == 1 ? std::nullopt : std::optional(place);
}

RendezvousPoint rendezvous_by_slurm(const Place& place, const CoordinatorOptions& own) {
  if (place.id() == 0) return host_rendezvous(place, own);
  const Found found = await_rendezvous_file(rendezvous_folder() / rendezvous_name(), own.timeout);
  RendezvousPoint point{place};
  point.place.coordinator = found.coordinator;
  point.place.secret = found.secret;
  return point;
}

}  // namespace lockstep::cluster::detail
