// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/job.h"

#include "lockstep/base/version.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"
#include "lockstep/cluster/membership/placed_rendezvous.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/group.h"

namespace lockstep::cluster {
namespace {

const std::string& first_given(const std::string& own, const std::string& others) {
  return own.empty() ? others : own;
}

// Members that connect by different means would look for each other in vain.
void agree_on_transport(const comm::Bootstrap& bootstrap, const comm::TransportType& own) {
  const auto differs = [&](std::size_t rank, const std::string& first, const std::string& its) {
    throw comm::Refused(
        fmt::format("transport: rank {} ({}) has {}, rank 0 ({}) has {}: all members need the same",
                    rank, bootstrap.hosts[rank], its, bootstrap.hosts[0], first));
  };
  comm::compare_texts(bootstrap.all_gather(std::string(own.name)), differs);
}

}  // namespace

// The members stay with the coordinator until the end: it learns of those that die.
struct Job::Impl {
  std::optional<PlacedRendezvous> rendezvous = {};
  std::unique_ptr<comm::Communicator> communicator = {};
  Membership membership = {};
  std::int64_t id = 0;
  Role role;
  std::shared_ptr<comm::Meter> meter = std::make_shared<comm::Meter>();
  comm::PortRange ports = {};

  Impl(Place place, JobOptions options) : role(place.role) {
    if (place.is_scheduler)
      throw InvalidArgument(
          "job: this process is to be its scheduler (DMLC_ROLE), which is no member; expected "
          "cluster::run_scheduler, or train::join_job for all roles");
    if (place.timeout.count() > 0) options.timeout = place.timeout;
    place.interface = first_given(options.interface, place.interface);
    if (!options.ports.is_any()) place.ports = options.ports;
    ports = place.ports;
    const std::string& transport = first_given(options.transport, place.transport);
    if (transport == "mpi")
      connect_by_mpi(place, options);
    else
      connect(place, options, transport);
  }

  void connect(const Place& place, const JobOptions& options, const std::string& transport) {
    const comm::TransportType& type = comm::find_transport(transport);
    if (options.on_phase) options.on_phase("meet");
    rendezvous.emplace(place, RendezvousTerms{std::string(version()), options.configuration,
                                              options.timeout, options.tolerates_lost_servers});
    membership = (*rendezvous)->membership();
    id = (*rendezvous)->id();
    if (options.on_phase) options.on_phase("connect");
    try {
      connect_members(place, type);
    } catch (const comm::CommError& error) {
      complain(error);
      throw;
    }
  }

  void connect_members(const Place& place, const comm::TransportType& type) {
    comm::Bootstrap bootstrap = (*rendezvous)->bootstrap();
    bootstrap.scratch = place.scratch;
    bootstrap.ports = place.ports;
    bootstrap.meter = meter;
    agree_on_transport(bootstrap, type);
    communicator = std::make_unique<comm::Communicator>(type.connect(bootstrap), meter);
  }

  void complain(const comm::CommError& error) const noexcept {
    if (rendezvous && error.rank() >= 0) (*rendezvous)->complain(error.rank(), error.what());
  }

  Rendezvous& coordinator_for(const char* what) const {
    if (rendezvous) return **rendezvous;
    throw Unsupported("{}: over MPI alone there is no coordinator to be asked", what);
  }

  void connect_by_mpi(const Place& place, const JobOptions& options) {
    if (place.launcher != Place::Launcher::mpi)
      throw InvalidArgument(
          "transport: mpi connects processes that mpirun started; this one has "
          "been started otherwise: use auto");
    if (place.servers > 0)
      throw InvalidArgument("transport: mpi connects workers alone, and this job has {} servers",
                            place.servers);
    communicator = std::make_unique<comm::Communicator>(detail::connect_by_mpi(place));
    detail::check_agreement(*communicator, std::string(version()) + "\n" + options.configuration,
                            options.timeout);
    id = place.id();
    membership = workers_of(*communicator);
  }
};

Job::Job(const Place& place, const JobOptions& options)
    : impl_(std::make_unique<Impl>(place, options)) {}

Job::~Job() = default;

const Membership& Job::membership() const { return impl_->membership; }
std::int64_t Job::id() const { return impl_->id; }
Role Job::role() const { return impl_->role; }
int Job::rank() const { return impl_->communicator->rank(); }
int Job::size() const { return impl_->communicator->size(); }
const std::string& Job::secret() const {
  impl_->coordinator_for("secret");
  return impl_->rendezvous->secret();
}
const std::string& Job::address() const { return impl_->coordinator_for("address").address(); }
const std::shared_ptr<comm::Meter>& Job::meter() const { return impl_->meter; }
const comm::PortRange& Job::ports() const { return impl_->ports; }
std::vector<MemberReport> Job::report(const std::string& text) noexcept {
  return impl_->rendezvous ? (*impl_->rendezvous)->report(text) : std::vector<MemberReport>();
}
void Job::complain(const comm::CommError& error) noexcept { impl_->complain(error); }
MembershipStatus Job::query(std::chrono::milliseconds timeout) {
  return impl_->coordinator_for("membership").query(timeout);
}
bool Job::have_workers_left() { return impl_->coordinator_for("membership").have_workers_left(); }
std::int64_t Job::put(const std::string& name, const std::string& bytes,
                      std::chrono::milliseconds timeout) {
  return impl_->coordinator_for("registry").put(name, bytes, timeout);
}
RegistryEntry Job::get(const std::string& name, std::chrono::milliseconds timeout,
                       const RegistryWait& wait) {
  return impl_->coordinator_for("registry").get(name, timeout, wait);
}
ComparedEntry Job::compare_and_set(const std::string& name, std::int64_t expected_version,
                                   const std::string& bytes, std::chrono::milliseconds timeout) {
  return impl_->coordinator_for("registry").compare_and_set(name, expected_version, bytes, timeout);
}
comm::Communicator& Job::communicator() { return *impl_->communicator; }

}  // namespace lockstep::cluster
