// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/detail/generation_keeper.h"
#include "lockstep/cluster/membership/detail/messages.h"

using namespace lockstep;
using namespace lockstep::cluster::detail;

namespace {

constexpr std::int64_t kWorkers = 3;

GenerationKeeper make_keeper() {
  GenerationKeeper keeper({.max_workers = 6, .patience = KeeperTime(50)});
  Membership first{.generation = 1};
  for (std::int64_t id = 0; id < kWorkers; ++id) first.members.push_back({.id = id});
  keeper.begin_with(first);
  return keeper;
}

// What the members say of the job, taken as the coordinator takes it.
class Keeper {
 public:
  void take(std::int64_t from, const Message& message) {
    ++now_;
    if (const auto* join = std::get_if<Join>(&message); join != nullptr && !keeper_.knows(next_))
      keeper_.add(next_++, "localhost");
    if (const auto* report = std::get_if<Report>(&message))
      keeper_.report(from,
                     {.generation = report->generation,
                      .has_state = report->has_state,
                      .is_finished = report->is_finished,
                      .step = report->step,
                      .missed = report->missed,
                      .why = report->why},
                     now());
    if (const auto* depart = std::get_if<Depart>(&message))
      keeper_.release(depart->id < 0 ? from : depart->id, "asked to", now());
    if (std::holds_alternative<Told>(message)) keeper_.tell(from);
    if (const auto* resize = std::get_if<Resize>(&message))
      keeper_.resize(static_cast<int>(resize->workers & 7), now());
    if (std::holds_alternative<WaitForNobody>(message)) keeper_.wait_for_nobody(now());
    if (const auto* expel = std::get_if<Expel>(&message))
      if (keeper_.is_current(expel->id, expel->generation))
        keeper_.lose(expel->id, expel->why, now());
    if (std::holds_alternative<Missed>(message)) keeper_.lose(from, "lost", now());
    if (std::holds_alternative<AwaitLeave>(message)) keeper_.end(from, now());
    keeper_.tick(now());
    check_actions();
  }

 private:
  KeeperTime now() const { return KeeperTime(now_); }

  // Generations grow, and those in them are known.
  void check_actions() {
    for (const KeeperAction& action : keeper_.take_actions())
      if (const auto* begin = std::get_if<Begin>(&action)) {
        if (begin->membership.generation <= generation_) std::abort();
        if (begin->membership.members.empty()) std::abort();
        generation_ = begin->membership.generation;
        for (const Member& member : begin->membership.members)
          if (!keeper_.knows(member.id)) std::abort();
      }
  }

  GenerationKeeper keeper_ = make_keeper();
  std::int64_t now_ = 0, next_ = kWorkers, generation_ = 1;
};

}  // namespace

// Bytes of any kind are a message or Corrupt; a message comes back as it was; and whatever members
// say, in whatever order, the keeper of the generations lives on. The input is a list: who says it,
// the length of the message, the message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Keeper keeper;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() > 3) {
    const std::int64_t from = rest[0] & 7;
    std::uint16_t length = 0;
    std::memcpy(&length, rest.data() + 1, sizeof length);
    rest.remove_prefix(3);
    const std::string_view bytes = rest.substr(0, length);
    rest.remove_prefix(bytes.size());
    try {
      const Message message = decode(bytes);
      const std::string text = encode(message);
      if (encode(decode(text)) != text) std::abort();
      keeper.take(from, message);
    } catch (const Corrupt&) {
    }
  }
  return 0;
}
