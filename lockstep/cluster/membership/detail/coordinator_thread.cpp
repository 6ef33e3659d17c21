// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/coordinator_thread.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <thread>

#include "lockstep/comm/authenticated_listener.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {
namespace {

// One address must not use up the time of the others.
constexpr auto kConnectTimeout = std::chrono::milliseconds(2000),
               kPause = std::chrono::milliseconds(20);
// Of servers, once the workers are done.
constexpr auto kFarewell = std::chrono::seconds(10);

// Only of use on its own link, and with a scope that others do not know.
bool is_link_local(const std::string& address) { return address.starts_with("fe80:"); }

std::vector<std::string> addresses_of(const std::vector<comm::Interface>& interfaces) {
  std::vector<std::string> addresses;
  for (const comm::Interface& one : interfaces)
    if (!is_link_local(one.address)) addresses.push_back(one.address);
  return addresses;
}

}  // namespace

std::string to_text(const Invitation& invitation) {
  std::string text = invitation.secret + "\n";
  for (const comm::Endpoint& one : invitation.endpoints) text += to_string(one) + "\n";
  return text;
}

Invitation parse_invitation(const std::string& text) {
  Invitation invitation;
  std::istringstream lines(text);
  std::getline(lines, invitation.secret);
  try {
    for (std::string line; std::getline(lines, line);)
      invitation.endpoints.push_back(comm::parse_endpoint(line));
  } catch (const InvalidArgument& error) {
    throw Corrupt("invitation: {}", error.what());
  }
  if (invitation.secret.empty() || invitation.endpoints.empty())
    throw Corrupt("invitation: {} bytes, expected a secret and an endpoint", text.size());
  return invitation;
}

CoordinatorThread::CoordinatorThread(const CoordinatorOptions& options)
    : CoordinatorThread(std::make_unique<Coordinator>(options), options.servers > 0) {}

CoordinatorThread::CoordinatorThread(std::unique_ptr<Coordinator> coordinator, bool has_servers)
    : coordinator_(std::move(coordinator)),
      has_servers_(has_servers),
      thread_([this](const std::stop_token& stop) {
        try {
          coordinator_->run(stop);
        } catch (const std::exception&) {
          // The members have heard it.
        }
        done_.release();
      }) {}

CoordinatorThread::~CoordinatorThread() {
  if (has_servers_ || coordinator_->is_run_done()) [[maybe_unused]]
    const bool all_left = done_.try_acquire_for(kFarewell);
}

std::vector<std::string> reachable_addresses(const std::string& interface,
                                             const std::string& other) {
  if (!interface.empty()) {
    const auto addresses = addresses_of(comm::find_interfaces(interface));
    if (!addresses.empty()) return addresses;
    throw NotFound("interface '{}': has only an address of its own link, expected one of {}",
                   interface, comm::to_string(comm::list_interfaces()));
  }
  std::vector<std::string> addresses = addresses_of(comm::interfaces_towards({other, 1}));
  if (addresses.empty()) addresses = addresses_of(comm::list_interfaces());
  std::erase_if(addresses, comm::is_loopback);
  if (addresses.empty())
    throw NotFound("interface: this host has none but loopback, and the job has other hosts; {}",
                   comm::to_string(comm::list_interfaces()));
  return addresses;
}

std::string listen_address(const std::vector<std::string>& addresses) {
  if (addresses.size() == 1) return addresses[0];
  for (const std::string& one : addresses)
    if (one.find(':') != std::string::npos) return "::";
  return "0.0.0.0";
}

comm::Endpoint find_coordinator(const Invitation& invitation, std::chrono::milliseconds timeout) {
  const auto deadline = comm::Clock::now() + timeout;
  while (true) {
    std::exception_ptr last;
    for (const comm::Endpoint& one : invitation.endpoints) {
      try {
        const auto until = comm::Clock::now() + std::min(kConnectTimeout, timeout);
        comm::connect_authenticated(one, "", invitation.secret, 0, until, "rendezvous");
        return one;
      } catch (const Error&) {
        last = std::current_exception();
      }
    }
    if (comm::Clock::now() + kPause >= deadline) std::rethrow_exception(last);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::cluster::detail
