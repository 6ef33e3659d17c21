// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/survivors.h"

namespace lockstep::cluster::detail {

bool Survivors::take(const MembershipEvent& event) {
  if (event.kind == "joined" && late_.erase(event.member) > 0) restarts_.note_success();
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
