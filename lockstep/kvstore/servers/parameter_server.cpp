// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/parameter_server.h"

#include "lockstep/base/error.h"
#include "lockstep/base/float_mode.h"
#include "lockstep/base/hex.h"
#include "lockstep/base/hmac.h"

namespace lockstep::kvstore {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(100);      // to ask whether to stop
constexpr auto kReturn = std::chrono::seconds(3);           // for a worker whose connection was cut
constexpr auto kLook = std::chrono::seconds(1);             // from one look at the view to the next
constexpr int kRest = 20;                                   // times as long as looking for a backup
constexpr auto kLongestRest = std::chrono::seconds(10);     // and no longer
constexpr std::size_t kMostEarly = 65'536;                  // requests that overtook another
constexpr auto kShortTurn = std::chrono::milliseconds(10);  // and to look after backups

comm::MessageServerOptions message_options(const ServedJob& job, const ServerOptions& options) {
  comm::MessageServerOptions result;
  result.secret = job.secret;
  result.encrypted = job.encrypted;
  result.hub = job.hub;
  result.listen = options.listen;
  result.ports = options.ports;
  result.longest_message = options.most_bytes;
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

// A primary does not read what its backup makes.
comm::MessageBuffer ParameterServer::Replies::allocate(const comm::MessageEvent& request,
                                                       std::size_t bytes) {
  const bool is_read = !wire::to_subject(request.topic).is_forwarded;
  return is_read ? messages_.allocate(request.peer.id, bytes) : comm::allocate_buffer(bytes);
}

ParameterServer::ParameterServer(const ServedJob& job, const ServerOptions& options)
    : job_(job),
      options_(options),
      messages_(message_options(job, options)),
      answers_(messages_, server_name(options.number)),
      shared_(job_),
      is_starting_(has_replicas()) {
  has_replicas() ? begin_view() : add(options.number, Replica::Role::primary);
}

void ParameterServer::add(int range, Replica::Role role) {
  replicas_.try_emplace(range, range, role, job_, options_, answers_);
}

void ParameterServer::run() {
  const FlushSubnormals flush;
  while (!is_over() && !(options_.stops && options_.stops())) {
    const auto event =
        messages_.receive(comm::Clock::now() + (has_replicas() ? kShortTurn : kTurn));
    for (auto& [range, replica] : replicas_) replica.look_at_clock();
    if (!lost_.empty()) give_up_the_lost();
    if (has_replicas()) look_after_backups();
    if (!early_.empty() && !waits_for_first_backup())
      for (const comm::MessageEvent& early : std::exchange(early_, {})) take(early);
    if (!event) continue;
    if (event->kind == comm::MessageEvent::Kind::request)
      take(*event);
    else
      note_peer(*event);
  }
}

bool ParameterServer::is_over() const {
  return static_cast<int>(left_.size()) == job_.workers &&
         comm::Clock::now() > last_left_ + options_.grace;
}

void ParameterServer::note_peer(const comm::MessageEvent& event) {
  using Kind = comm::MessageEvent::Kind;
  if (event.kind == Kind::left || event.kind == Kind::lost || event.kind == Kind::silent)
    followed_.erase(event.peer.id);
  for (int rank = 0; rank < job_.workers; ++rank) {
    if (event.peer.name != worker_name(rank)) continue;
    std::set<std::uint64_t>& own = connections_[rank];
    if (event.kind == Kind::connected) {
      own.insert(event.peer.id);
      left_.erase(rank);
      lost_.erase(rank);
    }
    if (event.kind != Kind::left && event.kind != Kind::lost && event.kind != Kind::silent) return;
    own.erase(event.peer.id);
    if (!own.empty()) return;
    if (event.kind != Kind::left) {
      lost_.emplace(rank, comm::Clock::now());
      return;
    }
    if (job_.survives) return;  // the coordinator knows whether others come
    left_.insert(rank);
    last_left_ = comm::Clock::now();
    const bool was_last = static_cast<int>(left_.size()) == job_.workers;
    for (auto& [range, replica] : replicas_)
      replica.worker_left(static_cast<std::uint32_t>(rank), was_last);
  }
}

// A connection that was cut may be made again. A job that survives goes on with its tables in
// another epoch, which its workers begin; a store has the workers that it was made with.
void ParameterServer::give_up_the_lost() {
  for (auto place = lost_.begin(); place != lost_.end();) {
    if (comm::Clock::now() < place->second + kReturn) {
      ++place;
      continue;
    }
    for (auto& [range, replica] : replicas_)
      replica.worker_lost(static_cast<std::uint32_t>(place->first), job_.survives);
    place = lost_.erase(place);
  }
}

void ParameterServer::take(const comm::MessageEvent& event) {
  const wire::Subject subject = wire::to_subject(event.topic);
  if (subject.is_forwarded) return follow(event);
  if (waits_for_first_backup()) return early_.push_back(event);
  if (Replica* replica = primary_of(subject.range)) return replica->handle(event);
  if (!has_replicas())
    return answers_.fail(
        event, fmt::format("range {} is kept by {}", subject.range, server_name(subject.range)));
  messages_.drop(event.peer.id);  // it finds out who is primary, and asks there
}

// From the first request on, what is answered is on two servers.
bool ParameterServer::waits_for_first_backup() {
  if (!is_starting_) return false;
  const auto own = replicas_.find(options_.number);
  const bool is_protected = own == replicas_.end() ||
                            own->second.role() != Replica::Role::primary ||
                            (own->second.link() != nullptr && own->second.link()->holds_answers);
  is_starting_ = !is_protected && comm::Clock::now() < started_ + job_.timeout / 2;
  return is_starting_;
}

// A worker may have heard of a new view before this server.
Replica* ParameterServer::primary_of(int range) {
  const auto is_primary = [&] {
    const auto found = replicas_.find(range);
    return found != replicas_.end() && found->second.role() == Replica::Role::primary;
  };
  if (!is_primary() && has_replicas()) adopt(shared_.current());
  return is_primary() ? &replicas_.at(range) : nullptr;
}

// In the primary's order, whatever order they come in.
void ParameterServer::follow(const comm::MessageEvent& event) {
  Followed& followed = followed_[event.peer.id];
  if (followed.early.size() >= kMostEarly)
    return answers_.fail(event, fmt::format("request {} has not come", followed.next));
  followed.early.emplace(event.request, event);
  while (!followed.early.empty() && followed.early.begin()->first <= followed.next) {
    const comm::MessageEvent next = std::move(followed.early.begin()->second);
    followed.early.erase(followed.early.begin());
    if (next.request < followed.next) continue;
    ++followed.next;
    follow_next(next, wire::to_subject(next.topic).range);
  }
}

void ParameterServer::follow_next(const comm::MessageEvent& event, int range) {
  try {
    if (!has_replicas() || range >= job_.servers)
      throw InvalidArgument("nothing is forwarded to this server");
    if (wire::to_subject(event.topic).topic == wire::Topic::load_image) {
      if (primary_of(range) != nullptr) throw InvalidArgument("range {} is kept here", range);
      replicas_.erase(range);
      add(range, Replica::Role::backup);
    }
    const auto found = replicas_.find(range);
    if (found == replicas_.end() || found->second.role() != Replica::Role::backup)
      throw InvalidArgument("this server is no backup of range {}", range);
    found->second.follow(event);
    answers_.reply(event, {}, 0);
  } catch (const Error& error) {
    answers_.fail(event, error.what());
  }
}

// One that takes the place of a server that was lost before anybody noticed has nothing: it may be
// a backup.
void ParameterServer::begin_view() {
  const std::string name = fmt::format("server/{}/started", options_.number);
  const std::string own = to_hex(random_bytes(8));
  const bool is_first = job_.registry.compare_and_set(name, 0, own).text == own;
  view_ = shared_.current();
  for (int range = 0; is_first && range < job_.servers; ++range) {
    if (view_.of(range).primary == options_.number) add(range, Replica::Role::primary);
  }
  if (is_first) return;
  View next = view_;
  if (!next.remove(options_.number))
    throw InvalidArgument("serve: {} was started again, and what it kept is on no other server",
                          server_name(options_.number));
  view_ = shared_.propose(next);
}

void ParameterServer::adopt(const View& view) {
  view_ = view;
  bool lost_a_range = false;
  for (int range = 0; range < job_.servers; ++range) {
    const auto found = replicas_.find(range);
    if (found == replicas_.end()) continue;
    Replica& replica = found->second;
    const bool is_primary = view.of(range).primary == options_.number;
    if (is_primary && replica.role() == Replica::Role::backup) replica.promote();
    if (is_primary || replica.role() == Replica::Role::backup) continue;
    replicas_.erase(found);
    lost_a_range = true;
  }
  if (!lost_a_range) return;
  // Whoever waits for an answer of it asks again elsewhere.
  for (const comm::MessagePeer& peer : messages_.peers()) messages_.drop(peer.id);
}

// Somebody may have taken a backup for lost that is not.
void ParameterServer::look_at_view() {
  if (comm::Clock::now() < next_look_) return;
  next_look_ = comm::Clock::now() + kLook;
  adopt(shared_.current());
  for (auto& [range, replica] : replicas_)
    if (BackupLink* link = replica.link(); link != nullptr && link->holds_answers)
      link->holds_answers = view_.of(range).backup == link->server();
}

void ParameterServer::look_after_backups() {
  look_at_view();
  std::vector<int> ranges;
  for (const auto& [range, replica] : replicas_)
    if (replica.role() == Replica::Role::primary) ranges.push_back(range);
  for (const int range : ranges) {
    const auto found = replicas_.find(range);
    if (found == replicas_.end()) continue;
    BackupLink* link = found->second.link();
    if (link != nullptr && link->is_broken())
      lose_backup(range, found->second);
    else if (link == nullptr || !link->holds_answers)
      find_backup(range, found->second);
  }
}

// Without it the range goes on only when everybody knows that it is no backup any more.
void ParameterServer::lose_backup(int range, Replica& replica) {
  const int lost = replica.link()->server();
  View next = shared_.current();
  if (next.of(range).primary == options_.number && next.of(range).backup == lost) {
    next.of(range).backup = -1;
    next = shared_.propose(next);
  }
  if (next.of(range).primary != options_.number) return adopt(next);
  adopt(next);
  if (next.of(range).backup == lost) return;  // somebody else has changed the view: once more
  replica.release_link();
  next_try_ = std::max(next_try_, comm::Clock::now() + kTurn);
}

// The next server that is there. Nobody is answered meanwhile: the longer a try takes, the longer
// it is until the next one.
void ParameterServer::find_backup(int range, Replica& replica) {
  if (BackupLink* link = replica.link()) return name_backup(range, *link);
  const auto begin = comm::Clock::now();
  if (begin < next_try_) return;
  bool is_found = false;
  for (int i = 1; i < job_.servers && !is_found; ++i) try {
      const int server = (options_.number + i) % job_.servers;
      replica.fill(server, link_options(server));
      is_found = true;
    } catch (const Error&) {
    }
  const auto end = comm::Clock::now();
  next_try_ = end + std::clamp<comm::Clock::duration>(kRest * (end - begin), kTurn, kLongestRest);
}

// It has everything: others may know that it is the backup. From then on answers wait for it.
void ParameterServer::name_backup(int range, BackupLink& link) {
  if (link.done() == 0) return;
  const View::Range wanted{options_.number, link.server()};
  View view = shared_.current();
  for (int i = 0; i < job_.servers && view.of(range) == View::Range{options_.number, -1}; ++i) {
    view.of(range) = wanted;
    view = shared_.propose(view);
  }
  link.holds_answers = view.of(range) == wanted;
  adopt(view);
}

comm::MessageClientOptions ParameterServer::link_options(int server) const {
  comm::MessageClientOptions options;
  const auto soon = std::chrono::seconds(1);
  options.secret = job_.secret;
  options.encrypted = job_.encrypted;
  options.hub = job_.hub;
  options.generation = comm::kAnyGeneration;
  options.server = comm::parse_endpoint(job_.registry.get(
      fmt::format("server/{}", server), comm::Clock::now() + std::chrono::milliseconds(20)));
  options.what = "backup: " + server_name(server);
  options.name = server_name(options_.number);
  options.connect_timeout = soon;
  options.reconnects = false;
  options.longest_message = options_.most_bytes;
  return options;
}

void serve(const ServedJob& job, const ServerOptions& options) {
  if (options.number < 0 || options.number >= job.servers)
    throw InvalidArgument("serve: server {} of {}, expected 0 to {}", options.number, job.servers,
                          job.servers - 1);
  check_replicas(job);
  ParameterServer server(job, options);
  comm::Endpoint place = server.endpoint();
  if (!options.host.empty()) place.host = options.host;
  job.registry.put(fmt::format("server/{}", options.number), comm::to_string(place));
  server.run();
}

}  // namespace lockstep::kvstore
