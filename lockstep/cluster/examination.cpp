// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/examination.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "lockstep/cluster/detail/fields.h"
#include "lockstep/cluster/detail/measure.h"
#include "lockstep/cluster/detail/meeting.h"
#include "lockstep/cluster/rendezvous.h"
#include "lockstep/comm/gate.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
constexpr auto kKnock = 3000ms;

// Lets in whoever knows the secret, and forgets them.
class Door {
 public:
  Door(const std::string& address, const std::string& secret)
      : gate_({address, 0}, secret), endpoint_(gate_.endpoint()), thread_([this](auto stop) {
          while (!stop.stop_requested()) {
            std::vector<pollfd> watched;
            gate_.watch(watched);
            ::poll(watched.data(), watched.size(), 20);
            gate_.admit();
          }
        }) {}
  const comm::Endpoint& endpoint() const { return endpoint_; }

 private:
  comm::Gate gate_;
  comm::Endpoint endpoint_;
  std::jthread thread_;
};

std::string interface_of(const std::string& address) {
  for (const comm::Interface& one : comm::list_interfaces())
    if (one.address == address) return one.name;
  return {};
}

RendezvousOptions rendezvous_options(const Place& place, const JobOptions& options) {
  RendezvousOptions result = detail::rendezvous_options(place, options.timeout);
  result.version = "doctor";
  return result;
}

class Examiner {
 public:
  Examiner(Place place, const JobOptions& options) : options_(options) {
    if (!options.interface.empty()) place.interface = options.interface;
    if (!options.transport.empty()) place.transport = options.transport;
    meeting_ = detail::meet(place, options.timeout);
    rendezvous_ = std::make_unique<Rendezvous>(rendezvous_options(meeting_.place, options));
    meeting_.file.reset();
    result_.rank = rendezvous_->rank();
  }

  Examination run() {
    exchange_facts();
    knock_everywhere();
    if (result_.unreachable.empty()) measure();
    return std::move(result_);
  }

 private:
  void exchange_facts() {
    const std::string& address = rendezvous_->address();
    const std::string own = detail::FieldWriter()
                                .text(address)
                                .text(interface_of(address))
                                .text(to_bytes(look_at_host()))
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

  // Between members of one host there may be no network at all.
  std::string try_to_reach(const std::vector<std::string>& doors) {
    const auto own = static_cast<std::size_t>(result_.rank);
    detail::FieldWriter failures;
    for (std::size_t rank = 0; rank < doors.size(); ++rank) {
      if (result_.members[rank].host == result_.members[own].host) continue;
      try {
        comm::knock(comm::parse_endpoint(doors[rank]), result_.members[own].address,
                    meeting_.place.secret, 0, comm::Clock::now() + kKnock, "connection");
      } catch (const Error& error) {
        failures.number(static_cast<std::int64_t>(rank)).text(error.what());
      }
    }
    return failures.number(-1).bytes();
  }

  void knock_everywhere() {
    const Door door(rendezvous_->address(), meeting_.place.secret);
    const auto doors = rendezvous_->all_gather(to_string(door.endpoint()), options_.timeout);
    const auto patience = options_.timeout + kKnock * static_cast<int>(doors.size());
    const auto all = rendezvous_->all_gather(try_to_reach(doors), patience);
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
    const std::string& name = meeting_.place.transport;
    return comm::connect_group(rendezvous_->bootstrap(), name.empty()
                                                             ? comm::TransportKind::automatic
                                                             : comm::parse_transport(name));
  }

  void measure() {
    try {
      comm::Communicator group(connect());
      const auto offsets = detail::measure_clocks(group);
      for (std::size_t rank = 0; rank < offsets.size(); ++rank)
        result_.members[rank].clock_offset = offsets[rank];
      result_.links = detail::measure_links(group);
    } catch (const Error& error) {
      result_.broken = error.what();
    }
  }

  const JobOptions& options_;
  detail::Meeting meeting_;
  std::unique_ptr<Rendezvous> rendezvous_;
  Examination result_;
};

}  // namespace

Examination examine(const Place& place, const JobOptions& options) {
  return Examiner(place, options).run();
}

}  // namespace lockstep::cluster
