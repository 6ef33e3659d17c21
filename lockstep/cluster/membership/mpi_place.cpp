// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/transports/mpi.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr std::size_t kInvitationBytes = 1 << 16;

std::optional<Place> place_from(const char* rank_name, const char* size_name) {
  const auto rank = variable(rank_name);
  if (!rank) return std::nullopt;
  Place place;
  place.launcher = Place::Launcher::mpi;
  const int size = number_variable(size_name, needed_variable(size_name, rank_name), 1, kMostRanks);
  take_task(place, number_variable(rank_name, *rank, 0, size - 1), size);
  place.interface = variable("LOCKSTEP_INTERFACE").value_or("");
  place.transport = variable("LOCKSTEP_TRANSPORT").value_or("");
  return size == 1 ? std::nullopt : std::optional(place);
}

// A host of the job that is not this one; empty when there is none.
std::string other_host(const comm::Communicator& group) {
  for (int rank = 0; rank < group.size(); ++rank)
    if (group.host(rank) != group.host(group.rank())) return group.host(rank);
  return {};
}

std::vector<std::string> own_addresses(const Place& place, const comm::Communicator& group) {
  const std::string other = other_host(group);
  if (other.empty() && place.interface.empty()) return {"127.0.0.1"};
  return reachable_addresses(place.interface, other);
}

Invitation host_rendezvous(RendezvousPoint& point, const comm::Communicator& group,
                           const CoordinatorOptions& own) {
  const std::vector<std::string> addresses = own_addresses(point.place, group);
  Invitation invitation{{}, make_secret()};
  point.coordinator = std::make_unique<CoordinatorThread>(
      coordinator_of(point.place, own, {listen_address(addresses), 0}, invitation.secret));
  for (const std::string& address : addresses)
    invitation.endpoints.push_back({address, point.coordinator->port()});
  return invitation;
}

// Where it fails the others hear why: to leave MPI's group, rank 0 would wait for them.
Invitation host_or_abort(RendezvousPoint& point, comm::Communicator& group,
                         const CoordinatorOptions& own) {
  try {
    return host_rendezvous(point, group, own);
  } catch (const std::exception& error) {
    group.abort(error.what());
    throw;
  }
}

Invitation share(const Invitation& own, comm::Communicator& group,
                 std::chrono::milliseconds timeout) {
  std::string bytes = group.rank() == 0 ? to_text(own) : "";
  bytes.resize(kInvitationBytes, '\0');
  comm::CallOptions options;
  options.timeout = timeout;
  group.broadcast(std::as_writable_bytes(std::span(bytes)), 0, options);
  return parse_invitation(bytes.c_str());
}

}  // namespace

std::unique_ptr<comm::Transport> connect_by_mpi(const Place& place) {
  auto group = comm::connect_mpi();
  if (group->size() == place.members() && group->rank() == place.id()) return group;
  throw InvalidArgument(
      "mpi: this is rank {} of {} by its environment, {} of {} by MPI itself; expected the mpirun "
      "of the MPI library that this program is built with",
      place.id(), place.members(), group->rank(), group->size());
}

void check_agreement(comm::Communicator& group, const std::string& text,
                     std::chrono::milliseconds timeout) {
  comm::CallOptions options;
  options.timeout = timeout;
  const auto differs = [&](std::size_t rank, const std::string&, const std::string&) {
    throw comm::Refused(
        fmt::format("mpi: rank {} on {} has another version or configuration than rank 0 on {}",
                    rank, group.host(static_cast<int>(rank)), group.host(0)));
  };
  comm::compare_texts(comm::share_texts(group, text, options), differs);
}

std::optional<Place> find_openmpi_place() {
  return place_from("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
}

std::optional<Place> find_mpich_place() { return place_from("PMI_RANK", "PMI_SIZE"); }

// MPI is only asked where the others are, and let go at once: the job's own transports notice a
// member that dies, while MPI has no way to say it.
RendezvousPoint rendezvous_by_mpi(const Place& place, const CoordinatorOptions& own) {
  RendezvousPoint point{place};
  comm::Communicator group(connect_by_mpi(place));
  Invitation invitation;
  if (place.id() == 0) invitation = host_or_abort(point, group, own);
  invitation = share(invitation, group, own.timeout);
  point.place.coordinator =
      place.id() == 0 ? invitation.endpoints[0] : find_coordinator(invitation, own.timeout);
  point.place.secret = invitation.secret;
  return point;
}

}  // namespace lockstep::cluster::detail
