// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/survivors.h"

namespace lockstep::cluster::detail {

void Survivors::join(std::int64_t id) {
  ever_late_.erase(id);
  if (late_.erase(id) == 0)
    guests_.insert(id);
  else
    restarts_.note_success();
}

bool Survivors::take(const MembershipEvent& event) {
  if (event.kind == "joined") join(event.member);
  if (event.kind == "lost" || event.kind == "expelled" || event.kind == "left")
    guests_.erase(event.member);
  if (event.kind == "left") released_.insert(event.member);
  if (event.kind != "expelled") return false;
  expelled_[event.member] = event.why;
  return true;
}

std::string Survivors::why_expelled(std::int64_t id) const {
  const auto found = expelled_.find(id);
  return found == expelled_.end() ? "" : found->second;
}

bool Survivors::can_do_without(const MemberEnd& end, bool survives) {
  if (late_.erase(end.id) > 0) return true;
  if (end.is_good() || !survives || end.stopped_by() != 0) return false;
  return expelled_.contains(end.id) || !restarts_.is_program_error(end);
}

}  // namespace lockstep::cluster::detail
