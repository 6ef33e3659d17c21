// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/pushing_synchronizer.h"
#include "lockstep/kvstore/servers/served_job.h"

namespace lockstep::kvstore {
namespace {

constexpr int kDealer = 0;               // the server that deals tickets
constexpr std::size_t kMostEnding = 16;  // messages on their way

class OutOfStepMode final : public Mode, public OutOfStep {
 public:
  OutOfStepMode(const ServedJob& job, comm::Communicator* communicator,
                const Membership& membership, const OutOfStepOptions& options)
      : options_(options),
        timeout_(job.timeout),
        check_(job.check),
        group_(communicator == nullptr ? group_of_one()
                                       : group_of(*communicator, membership, job.timeout)),
        servers_(job, group_->rank()),
        alone_(*this) {
    target_.worker = static_cast<std::uint32_t>(group_->rank());
    target_.damps_stale = options.damps_stale;
    if (job.survives) target_.generation = membership.generation;
  }

  Group& group() override { return *group_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState&, std::int64_t) override {
    throw Unsupported("kvstore: the workers are not in step, and have no steps in common");
  }
  bool is_invariant() const override { return false; }
  std::string description() const override { return "as they come"; }
  SlotPlace slot_place() const override { return SlotPlace::elsewhere; }
  OutOfStep* out_of_step() override { return this; }

  Mode& alone() override { return alone_; }
  void go_on() override { target_.goes_on = true; }
  bool is_bounded() const override { return options_.bound != wire::kAnySteps; }

  void open(std::int64_t first, std::int64_t end, std::int64_t per_step) override {
    settle();
    group_->share("");  // everybody has ended its tickets, and pulled what they made
    if (!is_open_) target_.before = first;
    const bool goes_on = !std::exchange(is_open_, true) && target_.goes_on;
    first_does(*group_, [&] {
      const wire::OpenTickets request{.table = target_.table,
                                      .epoch = target_.epoch,
                                      .first = first,
                                      .end = end,
                                      .per_step = per_step,
                                      .bound = options_.bound,
                                      .goes_on = goes_on};
      servers_.ask(kDealer, wire::Topic::open_tickets, request,
                   fmt::format("kvstore: opening tickets {} to {}", first, end));
      return std::string();
    });
  }

  // Who computes waits for nobody, and hears here that the others go on without it.
  void ask(bool stop) override {
    if (check_) check_();
    const wire::TakeTicket request{.table = target_.table,
                                   .epoch = target_.epoch,
                                   .worker = target_.worker,
                                   .sequence = ++sequence_,
                                   .stop = stop,
                                   .patience = static_cast<std::uint64_t>(timeout_.count())};
    asked_.push_back(servers_.request(kDealer, wire::Topic::take_ticket, request,
                                      "kvstore: asking for a ticket"));
  }

  bool is_ready() override { return !asked_.empty() && asked_.front().is_done(); }

  Dealt next() override {
    while (true) {
      check(!asked_.empty(), "a ticket that nobody has asked for");
      ServerReply reply = std::move(asked_.front());
      asked_.pop_front();
      const auto given =
          message_in<wire::GivenTicket>(reply.wait([this] { look_at_endings(); }).payload);
      if (given.kind == wire::GivenTicket::again) {
        ask(false);
        continue;
      }
      if (given.kind == wire::GivenTicket::stuck) throw missing(given);
      Dealt dealt{.end = given.end, .stop = given.stop};
      if (given.kind == wire::GivenTicket::ticket) {
        dealt.ticket = given.number;
        dealt.ahead = given.ahead;
        target_.seen.most_ahead = std::max(target_.seen.most_ahead, given.ahead);
      }
      return dealt;
    }
  }

  void end(std::int64_t ticket, double loss, double accuracy) override {
    send_end({.ticket = ticket, .loss = loss, .accuracy = accuracy});
  }
  void give_up(std::int64_t ticket) override { send_end({.ticket = ticket, .done = false}); }
  void settle() override {
    for (ServerReply& reply : std::exchange(ending_, {})) reply.wait();
  }

  TicketSums sums() override {
    const std::string text = first_does(*group_, [&] {
      const wire::ReadTickets request{.table = target_.table, .epoch = target_.epoch};
      return servers_
          .ask(kDealer, wire::Topic::read_tickets, request, "kvstore: asking what is done")
          .text(0);
    });
    const auto done = wire::decode<wire::TicketsDone>(text);
    target_.seen.applied = static_cast<std::uint64_t>(done.of_run);
    return {done.tickets, done.loss, done.accuracy};
  }

  void check_applied() const override {
    const std::uint64_t done = target_.seen.applied;
    if (target_.least_applied == done && target_.most_applied == done) return;
    throw comm::RequestFailed(
        fmt::format("kvstore: the servers have applied {} to {} gradients, and {} tickets are done",
                    target_.least_applied, target_.most_applied, done),
        -1, "", "kvstore");
  }
  std::uint64_t most_applied() const override { return target_.most_applied; }
  const PushesSeen& seen() const override { return target_.seen; }

 private:
  // What one worker computes with.
  class Alone final : public Mode {
   public:
    explicit Alone(OutOfStepMode& job) : job_(job) {}
    Group& group() override { return *group_; }
    std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
      return job_.synchronize_alone(state, shards);
    }
    bool is_invariant() const override { return false; }
    std::string description() const override { return job_.description(); }
    SlotPlace slot_place() const override { return SlotPlace::elsewhere; }

   private:
    OutOfStepMode& job_;
    std::unique_ptr<Group> group_ = group_of_one();
  };

  std::unique_ptr<Synchronizer> synchronize_alone(FlatState& state, std::int64_t shards) {
    asked_.clear();
    ending_.clear();
    sequence_ = 0;
    is_open_ = false;
    target_.table = "pushed";
    target_.seen = {};
    return std::make_unique<PushingSynchronizer>(servers_, *group_, target_, state, shards);
  }

  comm::Timeout missing(const wire::GivenTicket& given) const {
    return {fmt::format("kvstore: no ticket was done for {} ms: worker {} has ticket {}",
                        timeout_.count(), given.worker, given.number),
            static_cast<int>(given.worker), "", "kvstore"};
  }

  // One that was lost with its server goes again: this ticket may wait for the end of that one.
  void look_at_endings() {
    for (ServerReply& reply : ending_) reply.is_done();
  }

  // On its way while the next one is computed.
  void send_end(wire::EndTicket request) {
    request.table = target_.table;
    request.epoch = target_.epoch;
    request.worker = target_.worker;
    ending_.push_back(servers_.request(kDealer, wire::Topic::end_ticket, request,
                                       fmt::format("kvstore: ending ticket {}", request.ticket)));
    while (!ending_.empty() && (ending_.front().is_done() || ending_.size() > kMostEnding)) {
      ServerReply reply = std::move(ending_.front());
      ending_.pop_front();
      reply.wait();
    }
  }

  OutOfStepOptions options_;
  std::chrono::milliseconds timeout_;
  std::function<void()> check_;
  std::unique_ptr<Group> group_;
  ServerConnections servers_;
  Alone alone_;
  PushTarget target_;
  bool is_open_ = false;
  std::uint64_t sequence_ = 0;
  std::deque<ServerReply> asked_, ending_;
};

// It asks for no tickets.
class LatecomersMode final : public Mode, public OutOfStep {
 public:
  Group& group() override { return alone_->group(); }
  std::unique_ptr<Synchronizer> synchronize(FlatState&, std::int64_t) override { refuse(); }
  bool is_invariant() const override { return false; }
  SlotPlace slot_place() const override { return SlotPlace::elsewhere; }
  OutOfStep* out_of_step() override { return this; }

  Mode& alone() override { return *engines_; }
  void go_on() override {}
  bool is_bounded() const override { return false; }
  void open(std::int64_t, std::int64_t, std::int64_t) override { refuse(); }
  void ask(bool) override { refuse(); }
  bool is_ready() override { refuse(); }
  Dealt next() override { refuse(); }
  void end(std::int64_t, double, double) override { refuse(); }
  void give_up(std::int64_t) override { refuse(); }
  void settle() override {}
  TicketSums sums() override { refuse(); }
  void check_applied() const override { refuse(); }
  std::uint64_t most_applied() const override { return 0; }
  const PushesSeen& seen() const override { return seen_; }

 private:
  [[noreturn]] static void refuse() {
    throw Unsupported("kvstore: a worker that is in no membership yet has no tickets");
  }
  std::unique_ptr<Mode> alone_ = local_mode(), engines_ = latecomers_mode();
  PushesSeen seen_;
};

}  // namespace

std::unique_ptr<Mode> latecomers_mode_out_of_step() { return std::make_unique<LatecomersMode>(); }

void PushesSeen::add(const PushesSeen& other) {
  pushes += other.pushes;
  most_stale = std::max(most_stale, other.most_stale);
  total_stale += other.total_stale;
  most_ahead = std::max(most_ahead, other.most_ahead);
  applied = std::max(applied, other.applied);
}

std::unique_ptr<Mode> out_of_step_mode(const ServedJob& job, comm::Communicator* communicator,
                                       const Membership& membership,
                                       const OutOfStepOptions& options) {
  return std::make_unique<OutOfStepMode>(job, communicator, membership, options);
}

}  // namespace lockstep::kvstore
