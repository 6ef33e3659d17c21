// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/view.h"

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/wire.h"

namespace lockstep::kvstore {
namespace {

struct RangeText {
  std::int32_t primary = 0, backup = -1;
  void visit(auto&& fields) { fields(primary, backup); }
};
struct ViewText {
  std::vector<RangeText> ranges = {};
  void visit(auto&& fields) { fields(ranges); }
};

View first_view(const ServedJob& job) {
  View view;
  for (int server = 0; server < job.servers; ++server) view.ranges.push_back({server, -1});
  return view;
}

}  // namespace

void check_replicas(const ServedJob& job) {
  if (job.replicas < 1 || job.replicas > 2 || job.replicas > job.servers)
    throw InvalidArgument(
        "kvstore: {} replicas on {} servers, expected 1 or 2 and no more than them", job.replicas,
        job.servers);
  if (job.replicas > 1 && !job.registry.compare_and_set)
    throw InvalidArgument("kvstore: {} replicas need a registry that compares and sets",
                          job.replicas);
}

bool View::remove(int server) {
  bool complete = true;
  for (Range& range : ranges) {
    if (range.backup == server) range.backup = -1;
    if (range.primary != server) continue;
    if (range.backup < 0) {
      complete = false;
      continue;
    }
    range = {range.backup, -1};
  }
  return complete;
}

View SharedView::exchange(std::int64_t expected, const View& next) const {
  ViewText text;
  for (const View::Range& range : next.ranges) text.ranges.push_back({range.primary, range.backup});
  const Registry::Entry entry =
      job_.registry.compare_and_set("servers/view", expected, wire::encode(text));
  View view{entry.version};
  if (entry.version == 0) return view;
  for (const RangeText& range : wire::decode<ViewText>(entry.text).ranges) {
    if (range.primary < 0 || range.primary >= job_.servers || range.backup >= job_.servers)
      throw Corrupt("kvstore: a view of {} and {}, the job has {} servers", range.primary,
                    range.backup, job_.servers);
    view.ranges.push_back({range.primary, range.backup});
  }
  if (static_cast<int>(view.ranges.size()) != job_.servers)
    throw Corrupt("kvstore: a view of {} servers, the job has {}", view.ranges.size(),
                  job_.servers);
  return view;
}

View SharedView::current() const { return exchange(0, first_view(job_)); }

View SharedView::propose(const View& next) const { return exchange(next.version, next); }

}  // namespace lockstep::kvstore
