// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/connections.h"

#include "lockstep/kvstore/servers/parameter_server.h"

namespace lockstep::kvstore {
namespace {

bool is_near(const comm::Endpoint& endpoint) {
  return endpoint.host == "localhost" || endpoint.host.starts_with("127.") ||
         endpoint.host == "::1";
}

}  // namespace

ServerConnections::ServerConnections(const ServedJob& job, int rank) : timeout_(job.timeout) {
  const comm::Deadline deadline = comm::Clock::now() + job.timeout;
  for (int server = 0; server < job.servers; ++server) {
    comm::MessageClientOptions options;
    options.secret = job.secret;
    options.encrypted = job.encrypted;
    options.hub = job.hub;
    options.generation = comm::kAnyGeneration;
    options.server =
        comm::parse_endpoint(job.registry.get(fmt::format("server/{}", server), deadline));
    options.what = fmt::format("kvstore: {}", server_name(server));
    options.name = worker_name(rank);
    options.connect_timeout = job.timeout;
    are_near_ = are_near_ && (job.hub != nullptr || is_near(options.server));
    places_.push_back(comm::to_string(options.server));
    clients_.push_back(std::make_unique<comm::MessageClient>(options));
  }
}

comm::PendingReply ServerConnections::send(int server, wire::Topic topic, std::string message,
                                           const std::string& what, const comm::Payload& floats,
                                           int priority, std::chrono::milliseconds timeout) {
  comm::Payload payload;
  payload.add(std::move(message));
  for (std::size_t part = 0; part < floats.parts(); ++part)
    for (const auto& [bytes, owner] : floats.segments(part)) payload.add(bytes, owner);
  comm::RequestOptions options;
  options.what = fmt::format("{} at {}", what, server_name(server));
  options.topic = static_cast<std::uint32_t>(topic);
  options.priority = priority;
  options.timeout = timeout.count() == 0 ? timeout_ : timeout;
  options.generation = comm::kAnyGeneration;
  return clients_[index(server)]->request(std::move(payload), options);
}

}  // namespace lockstep::kvstore
