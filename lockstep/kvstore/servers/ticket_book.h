// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>

#include "lockstep/kvstore/servers/answers.h"
#include "lockstep/kvstore/servers/image_messages.h"

namespace lockstep::kvstore {

// Deals tickets, each once and in order, to whoever asks, and knows which of them are under way and
// what came of those that are done. A request waits while its ticket's step would be too far ahead
// of the oldest one under way. When the workers change, what was under way is dealt again. One
// thread at a time.
class TicketBook {
 public:
  using Time = comm::Deadline;

  TicketBook(std::uint64_t epoch, Time now) : epoch_(epoch), progress_(now) {}
  // As it was when it was saved, but for who waits.
  TicketBook(const wire::BookImage& image, Time now);
  wire::BookImage save() const;
  void add_waiting(std::vector<comm::MessageEvent>& events) const;
  std::uint64_t epoch() const { return epoch_; }

  // Each throws InvalidArgument for a request that does not fit, before anything has changed.
  // Workers of another membership open them in an epoch of their own: those of the one before have
  // nothing any more.
  void open(const comm::MessageEvent& event, const wire::OpenTickets& request, Answers& answers,
            Time now);
  void take(const comm::MessageEvent& event, const wire::TakeTicket& request, Answers& answers,
            Time now);
  void end(const comm::MessageEvent& event, const wire::EndTicket& request, Answers& answers,
           Time now);
  void read(const comm::MessageEvent& event, Answers& answers) const;
  // Nobody gets a ticket any more: what the worker had under way will not be applied.
  void worker_left(std::uint32_t worker, Answers& answers);
  // Who has waited for long, and is to be told so.
  std::vector<wire::RemindTicket> reminders(Time now) const;
  void remind(const comm::MessageEvent& event, const wire::RemindTicket& request, Answers& answers);
  // Whoever waits is told so.
  void drop(const std::string& why, Answers& answers);

 private:
  struct Waiting {
    comm::MessageEvent event;
    wire::TakeTicket request;
    Time since;
  };

  std::int64_t step_of(std::int64_t ticket) const { return ticket / range_.per_step; }
  void check_open(const wire::OpenTickets& request) const;
  void begin_epoch(std::uint64_t epoch, Answers& answers);
  std::int64_t oldest() const;
  std::int64_t next() const { return again_.empty() ? next_ : *again_.begin(); }
  std::uint64_t ahead() const;
  bool is_over() const { return is_given_up_ || (again_.empty() && next_ >= range_.end); }
  bool may_deal() const { return !is_over() && ahead() <= range_.bound; }
  std::int64_t take_next();
  void note_end(const wire::EndTicket& request);
  void stop_after_step();
  void deal(Answers& answers, Time now);
  void give(const Waiting& to, const wire::GivenTicket& ticket, Answers& answers);
  std::string held_by() const;

  std::uint64_t epoch_;
  wire::OpenTickets range_;
  std::int64_t next_ = 0;         // that was never dealt
  std::set<std::int64_t> again_;  // that were, and are not done
  bool stop_ = false;
  bool is_given_up_ = false;  // a ticket cannot be done
  wire::TicketsDone done_;
  std::map<std::int64_t, std::uint32_t> under_way_;  // ticket to worker
  std::list<Waiting> waiting_;
  // The last ones, by worker and sequence.
  std::map<std::uint32_t, std::map<std::uint64_t, wire::GivenTicket>> given_;
  std::optional<std::string> broken_;
  Time progress_;  // when a ticket was dealt or done
};

}  // namespace lockstep::kvstore
