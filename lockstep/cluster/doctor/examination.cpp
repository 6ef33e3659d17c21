// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/examination.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "lockstep/cluster/detail/fields.h"
#include "lockstep/cluster/doctor/detail/measure.h"
#include "lockstep/cluster/membership/placed_rendezvous.h"
#include "lockstep/comm/authenticated_listener.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
constexpr auto kConnectTimeout = 3000ms;
constexpr auto kHandshake = 5s;
constexpr std::size_t kConnectors = 16;

// Lets in whoever knows the secret, and forgets them.
class ProbeListener {
 public:
  ProbeListener(const std::string& address, const std::string& secret, const comm::PortRange& ports)
      : listener_({address, 0}, secret, kHandshake, ports),
        endpoint_(listener_.endpoint()),
        thread_([this](auto stop) {
          while (!stop.stop_requested()) {
            std::vector<pollfd> watched;
            listener_.watch(watched);
            ::poll(watched.data(), watched.size(), 20);
            listener_.accept();
          }
        }) {}
  const comm::Endpoint& endpoint() const { return endpoint_; }

 private:
  comm::AuthenticatedListener listener_;
  comm::Endpoint endpoint_;
  std::jthread thread_;
};

std::string interface_of(const std::string& address) {
  for (const comm::Interface& one : comm::list_interfaces())
    if (one.address == address) return one.name;
  return {};
}

// Every member is examined alike, whatever its role in a job would be.
Place place_with(Place place, const JobOptions& options) {
  const int rank = place.id(), all = place.members();
  place.role = Role::worker;
  place.rank = rank;
  place.workers = all;
  place.servers = 0;
  if (!options.interface.empty()) place.interface = options.interface;
  if (!options.transport.empty()) place.transport = options.transport;
  if (!options.ports.is_any()) place.ports = options.ports;
  return place;
}

class Examiner {
 public:
  // All versions are examined: what they call themselves here is the same.
  Examiner(const Place& place, const JobOptions& options, const HostFacts& own)
      : options_(options),
        own_(own),
        transport_(place.transport),
        ports_(place.ports),
        rendezvous_(place, {.version = "doctor", .timeout = options.timeout}) {
    result_.rank = rendezvous_->rank();
  }

  Examination run() {
    exchange_facts();
    connect_everywhere();
    if (result_.unreachable.empty()) measure();
    return std::move(result_);
  }

 private:
  void exchange_facts() {
    const std::string& address = rendezvous_->address();
    const std::string own = detail::FieldWriter()
                                .text(address)
                                .text(interface_of(address))
                                .text(to_bytes(own_))
                                .bytes();
    const auto all = rendezvous_->all_gather(own, options_.timeout);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      detail::FieldReader fields(all[rank]);
      Examined one;
      one.host = rendezvous_->hosts()[rank];
      one.address = fields.text();
      one.interface = fields.text();
      one.facts = facts_from(fields.text());
      result_.members.push_back(std::move(one));
    }
  }

  // Empty when it can be reached. Between members of one host there may be no network at all.
  std::string why_unreachable(std::size_t rank, const std::string& endpoint) const {
    const Examined& own = result_.members[static_cast<std::size_t>(result_.rank)];
    if (result_.members[rank].host == own.host) return {};
    try {
      comm::connect_authenticated(comm::parse_endpoint(endpoint), own.address, rendezvous_.secret(),
                                  0, comm::Clock::now() + kConnectTimeout, "connection");
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }

  // Several at once, since listeners that never answer take their time; each member begins with
  // the one after it, so that not all come to the same one.
  std::string try_to_reach(const std::vector<std::string>& endpoints) const {
    std::vector<std::string> reasons(endpoints.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i; (i = next++) < endpoints.size();) {
        const std::size_t rank = (static_cast<std::size_t>(result_.rank) + i) % endpoints.size();
        reasons[rank] = why_unreachable(rank, endpoints[rank]);
      }
    };
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(kConnectors, endpoints.size()); ++i)
      threads.emplace_back(work);
    threads.clear();  // waits
    detail::FieldWriter failures;
    for (std::size_t rank = 0; rank < reasons.size(); ++rank)
      if (!reasons[rank].empty())
        failures.number(static_cast<std::int64_t>(rank)).text(reasons[rank]);
    return failures.number(-1).bytes();
  }

  void connect_everywhere() {
    const ProbeListener listener(rendezvous_->address(), rendezvous_.secret(), ports_);
    const auto endpoints =
        rendezvous_->all_gather(to_string(listener.endpoint()), options_.timeout);
    const auto timeout =
        options_.timeout + kConnectTimeout * (1 + static_cast<int>(endpoints.size() / kConnectors));
    const auto all = rendezvous_->all_gather(try_to_reach(endpoints), timeout);
    for (std::size_t from = 0; from < all.size(); ++from) {
      detail::FieldReader fields(all[from]);
      for (std::int64_t to; (to = fields.number()) >= 0;) {
        if (to >= static_cast<std::int64_t>(all.size()))
          throw Corrupt("doctor: rank {} tried rank {} of {}", from, to, all.size());
        result_.unreachable.push_back(
            {static_cast<int>(from), static_cast<int>(to), fields.text()});
      }
    }
  }

  std::unique_ptr<comm::Transport> connect() {
    comm::Bootstrap bootstrap = rendezvous_->bootstrap();
    bootstrap.ports = ports_;
    return comm::find_transport(transport_).connect(bootstrap);
  }

  void measure() {
    try {
      comm::Communicator group(connect());
      const auto offsets = detail::measure_clocks(group);
      for (std::size_t rank = 0; rank < offsets.size(); ++rank)
        result_.members[rank].clock_offset = offsets[rank];
      result_.links = detail::measure_links(group, detail::plan_measurement(group.topology()));
    } catch (const Error& error) {
      result_.broken = error.what();
    }
  }

  const JobOptions& options_;
  const HostFacts& own_;
  std::string transport_;
  comm::PortRange ports_;
  PlacedRendezvous rendezvous_;
  Examination result_;
};

}  // namespace

Examination examine(const Place& place, const JobOptions& options, const HostFacts& own) {
  return Examiner(place_with(place, options), options, own).run();
}

}  // namespace lockstep::cluster
