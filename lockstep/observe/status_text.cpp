// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "lockstep/observe/job_status.h"
#include "lockstep/observe/table.h"
#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

// A wait that is shorter is a step's own.
constexpr double kLongWait = 0.5;
// Members say once a second that they are there.
constexpr double kLate = 3.0;

std::string milliseconds(double seconds) {
  return seconds > 0.0 ? fmt::format("{:.1f} ms", 1000.0 * seconds) : "-";
}

std::string shards_of(const MemberStatus& member) {
  if (member.first_shard == member.end_shard) return "-";
  return fmt::format("{}-{}", member.first_shard, member.end_shard - 1);
}

std::string title_of(const MemberStatus& member) {
  return fmt::format("{} {}", member.role, member.rank);
}

// What is not as it should be.
std::string remark_of(const MemberStatus& member) {
  if (member.has_left) return "has left";
  if (member.heard_s > kLate) return fmt::format("not heard for {:.1f} s", member.heard_s);
  if (!member.waiting || member.waiting->seconds < kLongWait) return {};
  const std::string whom =
      member.waiting->rank < 0 ? "" : fmt::format(" for worker {}", member.waiting->rank);
  return fmt::format("waits {:.1f} s{} in {}", member.waiting->seconds, whom,
                     member.waiting->operation);
}

// The names of everybody who is waited for, or not heard: those to look at.
std::string blamed(const JobStatus& status) {
  std::set<std::string> names;
  for (const MemberStatus& member : status.members) {
    if (member.has_left) continue;
    if (member.heard_s > kLate) names.insert(title_of(member));
    const bool waits = member.waiting && member.waiting->seconds >= kLongWait;
    if (!waits || member.waiting->rank < 0) continue;
    const auto other =
        std::find_if(status.members.begin(), status.members.end(), [&](const MemberStatus& one) {
          return one.role == "worker" && one.rank == member.waiting->rank;
        });
    const bool waits_too =
        other != status.members.end() && other->waiting && other->heard_s <= kLate;
    if (!waits_too) names.insert(fmt::format("worker {}", member.waiting->rank));
  }
  std::string line;
  for (const std::string& name : names) line += (line.empty() ? "" : ", ") + name;
  return line;
}

std::string members_table(const JobStatus& status) {
  Table table({{"member"},
               {"host"},
               {"pid", Align::kRight},
               {"shards", Align::kRight},
               {"step", Align::kRight},
               {"computes", Align::kRight},
               {"waits", Align::kRight},
               {"sends", Align::kRight},
               {"heard", Align::kRight},
               {""}});
  for (const MemberStatus& member : status.members)
    table.add({title_of(member), member.host, std::to_string(member.pid), shards_of(member),
               member.role == "worker" ? format_count(member.step) : "-",
               milliseconds(member.compute_s), milliseconds(member.wait_s),
               member.bytes_sent > 0.0 ? format_bytes(member.bytes_sent) : "-",
               fmt::format("{:.1f} s", member.heard_s), remark_of(member)});
  return table.str();
}

std::string headline(const JobStatus& status, const Verdict& verdict) {
  std::string line = fmt::format("{}: {}", status.run, to_string(verdict.kind));
  if (verdict.kind == Verdict::Kind::running && status.state == JobStatus::State::starting)
    line += ", starting";
  line += fmt::format(", step {}", format_count(status.step));
  if (status.total_steps > 0) line += " of " + format_count(status.total_steps);
  if (status.epoch > 0) line += fmt::format(" (epoch {})", status.epoch);
  if (status.samples_per_s > 0.0)
    line += fmt::format(", {} samples/s", format_rate(status.samples_per_s));
  if (status.step > 0) line += ", loss " + format_value(status.loss);
  return line;
}

}  // namespace

std::string status_text(const JobStatus& status, const Verdict& verdict, double now) {
  std::string text = headline(status, verdict) + "\n";
  if (!verdict.reason.empty()) text += verdict.reason + "\n";
  const double end = verdict.kind == Verdict::Kind::running ? now : status.written;
  text += fmt::format("{}, {}{}, generation {}, {}\n", status.recipe,
                      format_things(status.workers, "worker"),
                      status.servers > 0 ? ", " + format_things(status.servers, "server") : "",
                      status.generation, format_duration(std::max(0.0, end - status.began)));
  if (verdict.kind == Verdict::Kind::finished || status.members.empty()) return text;
  const std::string names = verdict.kind == Verdict::Kind::running ? blamed(status) : "";
  if (!names.empty()) text += fmt::format("waited for: {}\n", names);
  return text + members_table(status);
}

}  // namespace lockstep::observe
