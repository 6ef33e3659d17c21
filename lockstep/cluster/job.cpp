// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job.h"

#include "lockstep/base/version.h"
#include "lockstep/cluster/rendezvous.h"
#include "lockstep/comm/group.h"

namespace lockstep::cluster {
namespace {

const std::string& first_given(const std::string& own, const std::string& others) {
  return own.empty() ? others : own;
}

RendezvousOptions rendezvous_options(const Place& place, const JobOptions& options) {
  RendezvousOptions result;
  result.coordinator = place.coordinator;
  result.secret = place.secret;
  result.size = place.size;
  result.rank = place.rank;
  result.interface = first_given(options.interface, place.interface);
  result.version = version();
  result.configuration = options.configuration;
  result.host = place.host;
  result.timeout = options.timeout;
  return result;
}

comm::TransportKind transport_of(const Place& place, const JobOptions& options) {
  const std::string& name = first_given(options.transport, place.transport);
  return name.empty() ? comm::TransportKind::automatic : comm::parse_transport(name);
}

}  // namespace

// The members stay with the coordinator until the end: it learns of those that die.
struct Job::Impl {
  std::unique_ptr<Rendezvous> rendezvous = {};
  std::unique_ptr<comm::Communicator> communicator = {};

  Impl(const Place& place, const JobOptions& options) {
    const comm::TransportKind kind = transport_of(place, options);
    if (place.launcher != Place::Launcher::lockstep)
      throw Unsupported("job: only processes that lockstep launched can be connected");
    rendezvous = std::make_unique<Rendezvous>(rendezvous_options(place, options));
    communicator =
        std::make_unique<comm::Communicator>(comm::connect_group(rendezvous->bootstrap(), kind));
  }
};

Job::Job(const Place& place, const JobOptions& options)
    : impl_(std::make_unique<Impl>(place, options)) {}

Job::~Job() = default;

int Job::rank() const { return impl_->communicator->rank(); }
int Job::size() const { return impl_->communicator->size(); }
comm::Communicator& Job::communicator() { return *impl_->communicator; }

}  // namespace lockstep::cluster
