// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/kvstore/servers/served_job.h"

namespace lockstep::kvstore {

// Which servers keep what: range r of everything is at first on server r. The primary answers; the
// backup, once it is one, has all that was answered. A view never changes: a new one, of a higher
// version, takes its place.
struct View {
  struct Range {
    int primary = 0;
    int backup = -1;  // -1: none
    bool operator==(const Range&) const = default;
  };
  std::int64_t version = 0;
  std::vector<Range> ranges = {};

  const Range& of(int range) const { return ranges[static_cast<std::size_t>(range)]; }
  Range& of(int range) { return ranges[static_cast<std::size_t>(range)]; }
  // Without a server that was lost: backups take the place of primaries. False when a range is
  // nowhere else; it stays as it is.
  bool remove(int server);
};

// Throws InvalidArgument for a job that cannot have them.
void check_replicas(const ServedJob& job);

// The view of a job, at its registry. It changes by compare-and-set alone, so that there are never
// two primaries of a range.
class SharedView {
 public:
  explicit SharedView(const ServedJob& job) : job_(job) {}
  View current() const;
  // Replaces the view of `next.version`, if that is the current one; the current one afterwards.
  View propose(const View& next) const;

 private:
  View exchange(std::int64_t expected, const View& next) const;
  const ServedJob& job_;
};

}  // namespace lockstep::kvstore
