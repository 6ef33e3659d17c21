// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/doctor/examination.h"

namespace lockstep::cluster::detail {

struct RankPair {
  int first = 0, second = 0;
  bool operator==(const RankPair&) const = default;
};

// Pairs that are measured at the same time. No host is in two of them, unless they are inside it.
struct MeasureRound {
  std::vector<RankPair> pairs = {};
  double stream_seconds = 0;  // each way; 0: only how long a word takes
};

// What is measured, in this order. The same on all ranks.
struct MeasurePlan {
  std::vector<MeasureRound> rounds = {};
  double again_seconds = 0;  // each way, of what is measured once more
  double most_seconds = 0;   // then no more streams begin, planned or not

  // How long all of it takes, with what is measured once more.
  double seconds() const;
};

// `hosts`: the ranks of each. A word goes between any two hosts. Their rates are measured between
// all pairs of ranks, or, where that takes too long, of hosts, or between each host and a number of
// others, the same for all.
MeasurePlan plan_measurement(const std::vector<std::vector<int>>& hosts);

// Rounds for links between hosts that were slower than most: somebody may have been busy.
std::vector<MeasureRound> plan_again(const MeasurePlan& plan, const std::vector<Link>& links,
                                     const std::vector<std::vector<int>>& hosts);

}  // namespace lockstep::cluster::detail
