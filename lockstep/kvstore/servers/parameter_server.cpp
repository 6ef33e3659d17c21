// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/parameter_server.h"

#include "lockstep/base/error.h"
#include "lockstep/base/float_mode.h"

namespace lockstep::kvstore {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(100);  // to ask whether to stop

comm::MessageServerOptions message_options(const ServedJob& job, const ServerOptions& options) {
  comm::MessageServerOptions result;
  result.secret = job.secret;
  result.encrypted = job.encrypted;
  result.hub = job.hub;
  result.listen = options.listen;
  return result;
}

}  // namespace

std::string worker_name(int rank) { return fmt::format("worker {}", rank); }
std::string server_name(int number) { return fmt::format("server {}", number); }

void ParameterServer::Replies::reply(const comm::MessageEvent& request, comm::Payload payload,
                                     int priority) {
  messages_.reply(request, std::move(payload), priority);
}

void ParameterServer::Replies::fail(const comm::MessageEvent& request, const std::string& why) {
  messages_.fail(request, name_ + ": " + why);
}

ParameterServer::ParameterServer(const ServedJob& job, const ServerOptions& options)
    : workers_(job.workers),
      options_(options),
      messages_(message_options(job, options)),
      answers_(messages_, server_name(options.number)),
      state_(job.workers, options.most_bytes, options.threads, answers_) {}

void ParameterServer::run() {
  const FlushSubnormals flush;
  while (!is_over() && !(options_.stops && options_.stops())) {
    const auto event = messages_.receive(comm::Clock::now() + kTurn);
    if (!event) continue;
    if (event->kind == comm::MessageEvent::Kind::request)
      state_.handle(*event);
    else
      note_peer(*event);
  }
}

bool ParameterServer::is_over() const {
  return static_cast<int>(left_.size()) == workers_ &&
         comm::Clock::now() > last_left_ + options_.grace;
}

void ParameterServer::note_peer(const comm::MessageEvent& event) {
  for (int rank = 0; rank < workers_; ++rank) {
    if (event.peer.name != worker_name(rank)) continue;
    if (event.kind == comm::MessageEvent::Kind::connected) {
      connections_[rank].insert(event.peer.id);
      left_.erase(rank);
    }
    if (event.kind != comm::MessageEvent::Kind::left) continue;
    connections_[rank].erase(event.peer.id);
    if (!connections_[rank].empty()) continue;
    left_.insert(rank);
    last_left_ = comm::Clock::now();
    state_.worker_left(static_cast<std::uint32_t>(rank));
    if (static_cast<int>(left_.size()) == workers_) state_.all_left();
  }
}

void serve(const ServedJob& job, const ServerOptions& options) {
  if (options.number < 0 || options.number >= job.servers)
    throw InvalidArgument("serve: server {} of {}, expected 0 to {}", options.number, job.servers,
                          job.servers - 1);
  ParameterServer server(job, options);
  comm::Endpoint place = server.endpoint();
  if (!options.host.empty()) place.host = options.host;
  job.registry.put(fmt::format("server/{}", options.number), comm::to_string(place));
  server.run();
}

}  // namespace lockstep::kvstore
