// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/coordinator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/cluster/detail/fields.h"
#include "lockstep/cluster/membership/detail/differences.h"
#include "lockstep/cluster/membership/detail/session.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Kind;
using detail::Message;
using detail::Session;

constexpr auto kLinger = std::chrono::seconds(2);
constexpr std::size_t kLongestText = 1000;

struct Member {
  Session session;
  bool joined = false, left = false;
  std::string host = {}, machine = {}, version = {}, configuration = {};
  int wish = -1, rank = -1;
  std::vector<std::string> pending = {};            // what it gave to all_gather, not yet passed on
  comm::Deadline patience = comm::Deadline::max();  // until when it waits for the others

  std::string title() const {
    const std::string name = host.empty() ? to_string(session.from()) : host;
    const int number = rank >= 0 ? rank : wish;
    return number < 0 ? name : fmt::format("rank {} ({})", number, name);
  }
};

// What all members hear and the coordinator throws.
struct Failure {
  enum class Type { refused, lost, timeout };
  Type type;
  int rank;
  std::string host, text;
  [[noreturn]] void raise() const {
    if (type == Type::lost) throw comm::PeerLost(text, rank, host, "rendezvous");
    if (type == Type::timeout) throw comm::Timeout(text, rank, host, "rendezvous");
    throw comm::Refused(text);
  }
};

}  // namespace

struct Coordinator::Impl {
  CoordinatorOptions options;
  comm::AuthenticatedListener listener;
  comm::Endpoint endpoint;
  comm::Deadline deadline;
  std::vector<std::unique_ptr<Member>> members = {};
  std::vector<Complaint> complaints = {};
  bool complete = false;
  std::stop_token stop = {};

  explicit Impl(const CoordinatorOptions& given)
      : options(given),
        listener(given.listen, given.secret, given.proof_timeout),
        endpoint(listener.endpoint()),
        deadline(Clock::now() + given.timeout) {}

  void wait() {
    std::vector<pollfd> watched;
    listener.watch(watched);
    for (const auto& member : members)
      if (!member->left) watched.push_back(member->session.watched());
    const auto until = complete ? Clock::now() + std::chrono::milliseconds(100) : deadline;
    ::poll(watched.data(), watched.size(), comm::poll_milliseconds(until, 100));
  }

  void admit() {
    for (comm::AuthenticatedConnection& connection : listener.accept())
      members.push_back(std::make_unique<Member>(
          Member{Session(std::move(connection), Session::Side::coordinator)}));
  }

  void log_refusals() {
    for (const std::string& line : listener.take_new_refusals())
      if (options.log) options.log("a connection was refused: " + line);
  }

  void log_refusal_count() const {
    const std::string text = listener.refusal_counts();
    if (options.log && listener.refused() > 1)
      options.log(fmt::format("{} connections were refused: {}", listener.refused(), text));
  }

  void serve(Member& member) {
    try {
      member.session.advance();
      while (auto message = member.session.next()) handle(member, *message);
    } catch (const Corrupt& error) {
      fail({Failure::Type::refused, member.rank, member.host,
            fmt::format("rendezvous: {}: {}", member.title(), error.what())});
    }
    if (!member.session.is_closed() || member.left) return;
    if (!member.joined) return void(member.left = true);
    fail({Failure::Type::lost, member.rank, member.host,
          fmt::format("rendezvous: {} was lost: its connection to {} closed", member.title(),
                      to_string(endpoint))});
  }

  void handle(Member& member, const Message& message) {
    if (message.kind == Kind::join && !member.joined) return join(member, message.fields);
    if (message.kind == Kind::gather && member.joined) {
      detail::FieldReader fields(message.fields);
      member.patience = Clock::now() + std::chrono::milliseconds(fields.number());
      member.pending.push_back(fields.text());
      return pass_on();
    }
    if (message.kind == Kind::complaint && member.joined) return take_complaint(member, message);
    if (message.kind == Kind::bye) return void(member.left = true);
    throw Corrupt("a message of kind '{}' out of turn", static_cast<char>(message.kind));
  }

  void take_complaint(const Member& member, const Message& message) {
    detail::FieldReader fields(message.fields);
    const auto rank = fields.number();
    if (rank < 0 || rank >= options.size) return;
    complaints.push_back({member.rank >= 0 ? member.rank : member.wish, static_cast<int>(rank),
                          fields.text().substr(0, kLongestText)});
  }

  void join(Member& member, const std::string& bytes) {
    detail::FieldReader fields(bytes);
    member.version = fields.text();
    member.configuration = fields.text();
    member.wish = static_cast<int>(fields.number());
    const auto size = fields.number();
    member.host = fields.text();
    member.machine = fields.text();
    if (complete) return refuse_late(member);
    if (size != options.size)
      refuse(member, fmt::format("it expects {} members, this job has {}", size, options.size));
    for (const auto& other : members)
      if (other->joined) compare(member, *other);
    if (member.wish >= options.size)
      refuse(member, fmt::format("it wishes rank {}, this job has {}", member.wish, options.size));
    member.joined = true;
  }

  void refuse_late(Member& member) {
    const std::string text = fmt::format("rendezvous: {}: the job's {} members are all there",
                                         to_string(endpoint), options.size);
    tell(member, {Failure::Type::refused, -1, "", text});
    member.session.advance();
    member.left = true;
  }

  void compare(const Member& member, const Member& other) {
    const auto differ = [&](const char* what, const std::string& own, const std::string& its) {
      refuse(member, fmt::format("{} is {}, that of {} is {}", what, own, other.title(), its));
    };
    if (member.version != other.version) differ("its version", member.version, other.version);
    if (member.configuration != other.configuration)
      refuse(member, fmt::format("its configuration differs from that of {}: {}", other.title(),
                                 detail::differences(member.configuration, other.configuration)));
    if (member.wish >= 0 && member.wish == other.wish)
      refuse(member, fmt::format("rank {} is {}'s already", member.wish, other.host));
  }

  [[noreturn]] void refuse(const Member& member, const std::string& why) {
    fail({Failure::Type::refused, member.wish, member.host,
          fmt::format("rendezvous at {}: {} at {} does not fit: {}", to_string(endpoint),
                      member.title(), to_string(member.session.from()), why)});
  }

  void tell(Member& member, const Failure& failure) {
    detail::FieldWriter fields;
    fields.number(static_cast<int>(failure.type)).number(failure.rank);
    fields.text(failure.host).text(failure.text);
    member.session.queue(Kind::error, fields.bytes());
  }

  [[noreturn]] void fail(const Failure& failure) {
    if (failure.rank >= 0 && failure.type != Failure::Type::refused)
      complaints.push_back({-1, failure.rank, failure.text});
    for (auto& member : members)
      if (!member->left) tell(*member, failure);
    flush();
    collect_final_complaints();
    failure.raise();
  }

  // Who was missed by whom: members that end because of another one say so.
  void collect_final_complaints() {
    const auto end = Clock::now() + kLinger;
    const auto is_here = [](auto& one) { return !one->left && !one->session.is_closed(); };
    while (std::any_of(members.begin(), members.end(), is_here) && Clock::now() < end &&
           !stop.stop_requested()) {
      std::vector<pollfd> watched;
      for (auto& member : members)
        if (is_here(member)) watched.push_back(member->session.watched());
      ::poll(watched.data(), watched.size(), 20);
      for (auto& member : members)
        if (is_here(member)) collect_final_complaints_of(*member);
    }
  }

  void collect_final_complaints_of(Member& member) {
    try {
      member.session.advance();
      while (const auto message = member.session.next()) {
        if (message->kind == Kind::complaint && member.joined) take_complaint(member, *message);
        if (message->kind == Kind::bye) member.left = true;
      }
    } catch (const Corrupt&) {
      member.left = true;
    }
  }

  void flush() {
    const auto end = Clock::now() + kLinger;
    for (auto& member : members)
      while (!member->left && member->session.has_output() && !member->session.is_closed() &&
             Clock::now() < end) {
        pollfd watched = member->session.watched();
        ::poll(&watched, 1, 10);
        try {
          member->session.advance();
        } catch (const Corrupt&) {
          member->left = true;
        }
      }
  }

  int count_joined() const {
    return static_cast<int>(
        std::count_if(members.begin(), members.end(), [](auto& one) { return one->joined; }));
  }

  // Wishes first; then the free ranks, so that those of one machine are neighbours.
  void deal_ranks() {
    std::erase_if(members, [](auto& one) { return !one->joined; });
    std::set<int> free;
    for (int rank = 0; rank < options.size; ++rank) free.insert(rank);
    for (auto& member : members) free.erase(member->rank = member->wish);
    std::stable_sort(members.begin(), members.end(), [](auto& a, auto& b) {
      return std::tie(a->host, a->machine) < std::tie(b->host, b->machine);
    });
    for (auto& member : members)
      if (member->rank < 0) member->rank = free.extract(free.begin()).value();
    std::sort(members.begin(), members.end(), [](auto& a, auto& b) { return a->rank < b->rank; });
  }

  // Machines that happen to have the same name get different ones.
  void disambiguate_hosts() {
    std::map<std::string, std::vector<std::string>> machines;
    for (auto& member : members) {
      auto& known = machines[member->host];
      const auto place = std::find(known.begin(), known.end(), member->machine) - known.begin();
      if (place == static_cast<std::ptrdiff_t>(known.size())) known.push_back(member->machine);
      if (place > 0) member->host += fmt::format("#{}", place + 1);
    }
  }

  void send_table() {
    deal_ranks();
    disambiguate_hosts();
    std::vector<std::string> hosts;
    for (auto& member : members) hosts.push_back(member->host);
    for (auto& member : members)
      member->session.queue(Kind::table,
                            detail::FieldWriter().number(member->rank).texts(hosts).bytes());
    complete = true;
  }

  void pass_on() {
    const auto given = [](auto& one) { return !one->pending.empty() || !one->joined; };
    if (!complete || !std::all_of(members.begin(), members.end(), given)) return;
    std::vector<std::string> all;
    for (auto& member : members) {
      if (!member->joined) continue;
      member->patience = comm::Deadline::max();
      all.push_back(std::move(member->pending.front()));
      member->pending.erase(member->pending.begin());
    }
    const std::string fields = detail::FieldWriter().texts(all).bytes();
    for (auto& member : members)
      if (member->joined) member->session.queue(Kind::all, fields);
  }

  void check_patience() {
    const auto now = Clock::now();
    for (const auto& waiting : members)
      if (waiting->patience <= now)
        for (const auto& missing : members)
          if (missing->joined && missing->pending.empty())
            fail({Failure::Type::timeout, missing->rank, missing->host,
                  fmt::format("rendezvous: {} did not do its part of an all_gather in time; {} "
                              "waits for it",
                              missing->title(), waiting->title())});
  }

  void check_deadline() {
    if (complete) return check_patience();
    if (Clock::now() < deadline) return;
    std::string text = fmt::format("rendezvous at {}: {} of {} members joined within {:.1f} s",
                                   to_string(endpoint), count_joined(), options.size,
                                   std::chrono::duration<double>(options.timeout).count());
    std::string here;
    for (const auto& member : members)
      if (member->joined) here += (here.empty() ? "; there: " : ", ") + member->title();
    const std::vector<int> missing = missing_ranks();
    if (!missing.empty()) here += fmt::format("; missing: rank {}", fmt::join(missing, ", "));
    for (const std::string& refusal : listener.refusals()) here += "; turned away: " + refusal;
    fail({Failure::Type::timeout, missing.empty() ? -1 : missing[0], endpoint.host, text + here});
  }

  // None where members leave it to us to deal ranks.
  std::vector<int> missing_ranks() const {
    std::set<int> missing;
    for (int rank = 0; rank < options.size; ++rank) missing.insert(rank);
    for (const auto& member : members) {
      if (member->joined && member->wish < 0) return {};
      if (member->joined) missing.erase(member->wish);
    }
    return {missing.begin(), missing.end()};
  }

  bool all_left() const {
    return complete && std::all_of(members.begin(), members.end(),
                                   [](const auto& one) { return one->left || !one->joined; });
  }

  void turn() {
    wait();
    admit();
    log_refusals();
    for (std::size_t i = 0; i < members.size(); ++i)
      if (!members[i]->left) serve(*members[i]);
    std::erase_if(members, [](auto& one) { return one->left && !one->joined; });
    if (!complete && count_joined() == options.size) send_table();
    for (auto& member : members)
      if (!member->left && member->session.has_output()) member->session.advance();
    check_deadline();
  }
};

Coordinator::Coordinator(const CoordinatorOptions& options) {
  if (options.secret.empty())
    throw InvalidArgument("rendezvous: the job has no secret; expected one for every job");
  if (options.size < 1)
    throw InvalidArgument("rendezvous: {} members, expected at least 1", options.size);
  impl_ = std::make_unique<Impl>(options);
}

Coordinator::~Coordinator() = default;

comm::Endpoint Coordinator::endpoint() const { return impl_->endpoint; }

// What was said last may be there while we are asked to stop.
void Coordinator::run(const std::stop_token& stop) {
  impl_->stop = stop;
  try {
    while (!impl_->all_left() && !stop.stop_requested()) impl_->turn();
    for (auto& member : impl_->members)
      if (!member->left) impl_->collect_final_complaints_of(*member);
  } catch (...) {
    impl_->log_refusal_count();
    throw;
  }
  impl_->log_refusal_count();
}

std::vector<Complaint> Coordinator::complaints() const { return impl_->complaints; }

}  // namespace lockstep::cluster
