// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

// Levenshtein's distance, row by row; swapped neighbours count as two.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const bool begins = word.size() >= 2 && name.starts_with(word);
    const std::size_t steps = begins ? 0 : distance(word, name);
    if (steps < least && steps < name.size()) least = steps, best = name;
  }
  return best;
}

}  // namespace lockstep
