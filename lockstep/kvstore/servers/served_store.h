// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>

#include "lockstep/kvstore/compression.h"
#include "lockstep/kvstore/servers/answers.h"
#include "lockstep/kvstore/servers/image_messages.h"
#include "lockstep/kvstore/servers/served_value.h"

namespace lockstep::kvstore {

// What a server has of a store: values by key, their rule, and how far each worker has come with
// each of them. As ServedTable a state machine: requests in the same order give the same bits, and
// one that comes again counts once. One thread at a time.
class ServedStore {
 public:
  explicit ServedStore(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  // As it was when it was saved, but for what waits. Throws Corrupt.
  ServedStore(int workers, const wire::StoreImage& image, FloatParts& floats);
  wire::StoreImage save(comm::Payload& floats);
  // Requests that change something and wait, as they came.
  void add_waiting(std::vector<comm::MessageEvent>& events) const;

  void join(std::uint32_t worker);
  // False when nobody is left. Whoever waits for the worker does not any more.
  bool leave(std::uint32_t worker, Answers& answers);
  // Whoever waits for its push, of those in step, is told that it will not come.
  void lose(std::uint32_t worker, Answers& answers);
  // Of all values, and what the rule keeps for them.
  std::size_t bytes() const;
  std::size_t bytes_with(const wire::InitKey& request) const;

  // Each throws NotFound, InvalidArgument or Corrupt for a request that does not fit, before
  // anything has changed. `event` is the request; it has an answer now, or gets it from a later
  // call.
  void init(const comm::MessageEvent& event, const wire::InitKey& request, Answers& answers);
  void push(const comm::MessageEvent& event, Answers& answers);
  void push_rows(const comm::MessageEvent& event, Answers& answers);
  void pull(const comm::MessageEvent& event, Answers& answers);
  void pull_rows(const comm::MessageEvent& event, Answers& answers);
  void set_rule(const comm::MessageEvent& event, const wire::SetRule& request, Answers& answers);
  void read_state(const comm::MessageEvent& event, const wire::KeyState& request, Answers& answers);
  void write_state(const comm::MessageEvent& event, const wire::KeyState& request,
                   Answers& answers);

 private:
  // A worker's push, or a part of it.
  struct Pushing {
    comm::MessageEvent event;
    bool has_rows = false;
    std::string compression = {};
    std::size_t values = 0;
    std::vector<std::uint64_t> rows = {};
    std::size_t offset = 0, count = 0;  // floats
    bool pulls = false;                 // and is answered by what they have become
  };
  // Some floats, or all, of the pushes of workers in step.
  struct Part {
    std::size_t count = 0;
    std::map<std::uint32_t, Pushing> pushes = {};  // by worker, until all are here
    bool is_added = false;
    std::optional<AnsweredFloats> sum = {};  // where it lies in an answer
    // Without what they brought: until the value is whole, where they pull.
    std::vector<Pushing> unanswered = {};
  };
  struct Entry {
    ServedValue value;
    std::vector<std::uint64_t> clocks;             // by worker: pushes that were applied
    std::uint64_t version = 0;                     // of all workers
    std::map<std::uint64_t, Part> round = {};      // of workers in step, by offset
    std::vector<comm::MessageEvent> waiting = {};  // for pushes, of this worker or slower ones
  };

  Entry& find(const std::string& key);
  Entry& find(const wire::Clock& clock);
  std::uint64_t slowest(const Entry& entry) const;
  bool is_ahead(const Entry& entry, const wire::Clock& clock, std::uint64_t done) const;
  bool must_wait(const Entry& entry, const wire::Clock& pulled) const;
  static std::vector<SentFloats> values_of(const std::vector<const Pushing*>& pushes);
  void take(const comm::MessageEvent& event, const wire::Clock& clock, bool in_step,
            std::uint64_t seen, Pushing pushing, Answers& answers);
  void take_in_step(Entry& entry, const wire::Clock& clock, Pushing pushing, Answers& answers);
  void add_up(Entry& entry, std::uint64_t offset, Part& part, Answers& answers);
  std::optional<AnsweredFloats> room_in_answer(const Part& part, Answers& answers) const;
  void answer_part(Entry& entry, Part& part, Answers& answers);
  void answer_pushed(Entry& entry, const Pushing& pushing, Answers& answers);
  static bool is_whole(const Entry& entry);
  static bool has_all_of(const Entry& entry, std::uint32_t worker);
  void finish_round(Entry& entry, Answers& answers);
  AnsweredFloats counted(comm::MessageBuffer buffer) const;
  void apply(Entry& entry, const std::vector<const Pushing*>& pushes);
  void apply_codes(Entry& entry, const std::vector<const Pushing*>& pushes);
  void try_again(Entry& entry, Answers& answers);
  void reply_pulled(const comm::MessageEvent& event, const Entry& entry, comm::Payload floats,
                    Answers& answers) const;
  void check_pushes_agree(const std::string& key, const Entry& entry, const Pushing& own) const;

  std::size_t workers_;
  std::set<std::uint32_t> present_, gone_;
  PushRule rule_;
  std::shared_ptr<std::size_t> in_answers_ = std::make_shared<std::size_t>(0);  // bytes of values
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep::kvstore
