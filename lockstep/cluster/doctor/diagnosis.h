// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/doctor/examination.h"

namespace lockstep::cluster {

struct Problem {
  bool fatal = false;  // a job would fail; else it may be slow, or its user surprised
  std::string what = {};
  std::string advice = {};
};

// What is wrong with the members' hosts and with the ways between them, the fatal first.
std::vector<Problem> diagnose(const Examination& examination);

}  // namespace lockstep::cluster
