// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/placed_rendezvous.h"

#include "lockstep/cluster/membership/detail/rendezvous_point.h"

namespace lockstep::cluster {
namespace {

// The coordinator knows who is missing, so it has the first word.
RendezvousOptions options_of(const Place& place, std::chrono::milliseconds timeout) {
  RendezvousOptions result;
  result.coordinator = place.coordinator;
  result.secret = place.secret;
  result.role = place.role;
  result.rank = place.rank;
  result.workers = place.workers;
  result.servers = place.servers;
  result.interface = place.interface;
  result.host = place.host;
  result.is_late = place.is_late;
  if (!place.store.empty()) result.store = open_store(place.store);
  result.job = place.job;
  result.ports = place.ports;
  result.timeout = timeout + std::chrono::seconds(1);
  return result;
}

CoordinatorOptions own_options(const RendezvousTerms& terms) {
  CoordinatorOptions own;
  own.timeout = terms.timeout;
  if (!terms.survives) return own;
  own.heartbeat = terms.care.heartbeat;
  own.min_workers = terms.care.min_workers;
  own.max_workers = terms.care.max_workers;
  own.patience = terms.timeout;
  own.on_event = terms.care.on_event;
  return own;
}

}  // namespace

struct PlacedRendezvous::Impl {
  detail::RendezvousPoint point;
  std::unique_ptr<Rendezvous> rendezvous = {};  // says goodbye before the coordinator goes
};

PlacedRendezvous::PlacedRendezvous(const Place& place, const RendezvousTerms& terms)
    : impl_(std::make_unique<Impl>(Impl{detail::find_rendezvous(place, own_options(terms))})) {
  RendezvousOptions options = options_of(impl_->point.place, terms.timeout);
  options.version = terms.version;
  options.configuration = terms.configuration;
  options.tolerates_lost_servers = terms.tolerates_lost_servers;
  options.survives = terms.survives;
  impl_->rendezvous = std::make_unique<Rendezvous>(options);
  impl_->point.file.reset();
}

PlacedRendezvous::~PlacedRendezvous() = default;

Rendezvous& PlacedRendezvous::operator*() const { return *impl_->rendezvous; }
const std::string& PlacedRendezvous::secret() const { return impl_->point.place.secret; }
const comm::Endpoint& PlacedRendezvous::coordinator() const {
  return impl_->point.place.coordinator;
}

}  // namespace lockstep::cluster
