// SPDX-License-Identifier: Apache-2.0
// A user's program: says what it is in its job, who else is there, and that those of its role hear
// each other.
#include <fmt/core.h>

#include <span>

#include "lockstep/cluster/membership/job.h"

using namespace lockstep;

namespace {

std::string members_of(const Membership& membership) {
  std::string text;
  for (const Member& member : membership.members)
    text += fmt::format(" {} {}", to_string(member.role), membership.rank_of(member.id));
  return text;
}

void show_role() {
  cluster::Job job(cluster::find_place().value());
  std::int64_t sum = job.rank() + 1;
  job.communicator().all_reduce(std::as_writable_bytes(std::span(&sum, 1)), comm::Element::int64,
                                comm::Reduction::sum);
  const cluster::MembershipStatus now = job.query(std::chrono::seconds(10));
  fmt::print("{} {} of {}, sum {}, generation {}:{}\n", to_string(job.role()), job.rank(),
             job.size(), sum, now.membership.generation, members_of(now.membership));
}

}  // namespace

int main() {
  try {
    show_role();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "show_role: {}\n", error.what());
    return 1;
  }
}
