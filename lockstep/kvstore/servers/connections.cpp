// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/connections.h"

#include "lockstep/kvstore/servers/parameter_server.h"

namespace lockstep::kvstore {
namespace {

constexpr auto kReconnect = std::chrono::milliseconds(500);
// To a server that has said where it is, before it is taken for lost.
constexpr auto kConnect = std::chrono::seconds(3);

bool is_near(const comm::Endpoint& endpoint) {
  return endpoint.host == "localhost" || endpoint.host.starts_with("127.") ||
         endpoint.host == "::1";
}

// Whether a server has said where it is.
bool has_come(const ServedJob& job, int server) {
  try {
    job.registry.get(fmt::format("server/{}", server), comm::Clock::now());
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

ServerConnections::ServerConnections(const ServedJob& job, int rank)
    : job_(job), rank_(rank), shared_(job_), clients_(static_cast<std::size_t>(job.servers)) {
  check_replicas(job_);
  if (has_replicas()) view_ = shared_.current();
  if (!has_replicas()) view_.ranges.resize(clients_.size());
  for (int range = 0; range < job.servers; ++range) {
    if (!has_replicas()) view_.of(range) = {range, -1};
    await_client(range, comm::Clock::now() + job.timeout);
  }
}

// One that has said where it is and does not answer may have died: its backup is asked. While there
// is none it may still answer.
void ServerConnections::await_client(int range, comm::Deadline deadline) {
  for (;;) try {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - comm::Clock::now());
      find_client(range, left, has_replicas() ? kConnect : left);
      return;
    } catch (const comm::PeerLost&) {
      const bool may_answer = has_replicas() && has_come(job_, view_.of(range).primary);
      if (!may_answer || comm::Clock::now() >= deadline) throw;
    }
}

ServerConnections::Client ServerConnections::connect(int server, std::chrono::milliseconds to_find,
                                                     std::chrono::milliseconds to_connect) {
  comm::MessageClientOptions options;
  options.secret = job_.secret;
  options.encrypted = job_.encrypted;
  options.hub = job_.hub;
  options.meter = job_.meter;
  options.generation = comm::kAnyGeneration;
  options.server = comm::parse_endpoint(
      job_.registry.get(fmt::format("server/{}", server), comm::Clock::now() + to_find));
  options.what = fmt::format("kvstore: {}", server_name(server));
  options.name = worker_name(rank_);
  options.connect_timeout = to_connect;
  options.reconnects = !has_replicas();
  are_near_ = are_near_ && (job_.hub != nullptr || is_near(options.server));
  return std::make_shared<comm::MessageClient>(options);
}

ServerReply ServerConnections::send(int range, wire::Topic topic, std::string message,
                                    const std::string& what, const comm::Payload& floats,
                                    int priority, std::chrono::milliseconds timeout) {
  auto request = std::make_shared<ServerReply::Request>();
  request->range = range;
  request->payload.add(std::move(message));
  for (std::size_t part = 0; part < floats.parts(); ++part)
    for (const auto& [bytes, owner] : floats.segments(part)) request->payload.add(bytes, owner);
  comm::RequestOptions& options = request->options;
  options.what = fmt::format("{} at {}", what, server_name(range));
  options.topic = wire::to_number({.topic = topic, .range = range});
  options.priority = priority;
  options.timeout = timeout.count() == 0 ? job_.timeout : timeout;
  options.generation = comm::kAnyGeneration;
  request->deadline = comm::Clock::now() + options.timeout;
  ServerReply reply;
  reply.connections_ = this;
  reply.request_ = std::move(request);
  start(reply);
  return reply;
}

// A server that was lost before has no client any more, nor one that was no primary.
ServerConnections::Client ServerConnections::client_of(int range) {
  const std::lock_guard lock(mutex_);
  const auto timeout = has_replicas() ? kReconnect : job_.timeout;
  return find_client(range, timeout, timeout);
}

ServerConnections::Client ServerConnections::find_client(int range,
                                                         std::chrono::milliseconds to_find,
                                                         std::chrono::milliseconds to_connect) {
  for (;;) {
    const int server = view_.of(range).primary;
    Client& client = clients_[static_cast<std::size_t>(server)];
    if (client) return client;
    try {
      client = connect(server, to_find, to_connect);
    } catch (const comm::Refused&) {
      throw;
    } catch (const Error& error) {
      if (!has_replicas()) throw;
      remove(server, error.what());
    }
  }
}

// Others may change the view at the same time.
void ServerConnections::remove(int server, const std::string& why) {
  for (view_ = shared_.current();;) {
    View next = view_;
    if (!next.remove(server))
      throw comm::PeerLost(
          fmt::format("{}; what {} kept is on no other server", why, server_name(server)), server,
          "", "kvstore");
    if (next.ranges == view_.ranges) return;
    view_ = shared_.propose(next);
  }
}

void ServerConnections::start(ServerReply& reply) {
  const ServerReply::Request& request = *reply.request_;
  for (;;) {
    reply.client_ = client_of(request.range);
    try {
      reply.reply_ = reply.client_->request(request.payload, request.options);
      return;
    } catch (const comm::PeerLost& error) {
      repair(request.range, reply.client_, error);
    }
  }
}

// Somebody else may have found another server meanwhile, or the same one again.
void ServerConnections::repair(int range, const Client& lost, const comm::PeerLost& error) {
  if (!has_replicas()) throw error;
  const std::lock_guard lock(mutex_);
  Client& client = clients_[static_cast<std::size_t>(view_.of(range).primary)];
  if (client != lost) return;
  client = nullptr;
  view_ = shared_.current();
}

void ServerReply::start_again(const comm::PeerLost& error) {
  if (comm::Clock::now() > request_->deadline) throw error;
  connections_->repair(request_->range, client_, error);
  connections_->start(*this);
}

bool ServerReply::is_done() {
  if (answer_ || failure_) return true;
  if (!reply_.is_done()) return false;
  try {
    try {
      answer_ = reply_.wait();
    } catch (const comm::PeerLost& error) {
      start_again(error);
    }
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
  return answer_ || failure_;
}

comm::Reply ServerReply::wait(const std::function<void()>& check) {
  const std::function<void()>& of_job = connections_->job_.check;
  const auto both = [&] {
    if (of_job) of_job();
    check();
  };
  for (;;) try {
      if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
      if (answer_) return *std::exchange(answer_, {});
      return check ? reply_.wait(both) : reply_.wait(of_job);
    } catch (const comm::PeerLost& error) {
      start_again(error);
    }
}

}  // namespace lockstep::kvstore
