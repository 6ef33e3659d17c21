// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/detail/throughput_meter.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace lockstep::cluster::detail {
namespace {

constexpr double kBegin = 0.4;  // of the time, which counts for nothing
constexpr std::size_t kWindows = 12, kOutliers = 3;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void ThroughputMeter::add(double seconds, std::size_t bytes) {
  pieces_.push_back({seconds, pieces_.back().bytes + static_cast<double>(bytes)});
}

double ThroughputMeter::latest_rate(std::size_t count) const {
  const Piece& last = pieces_.back();
  const Piece& before = pieces_[pieces_.size() - 1 - std::min(count, pieces_.size() - 1)];
  const double took = last.seconds - before.seconds;
  return took > 0 ? (last.bytes - before.bytes) / took : 0;
}

double ThroughputMeter::bytes_by(double seconds) const {
  const auto after =
      std::lower_bound(pieces_.begin() + 1, pieces_.end() - 1, seconds,
                       [](const Piece& piece, double moment) { return piece.seconds < moment; });
  const Piece &from = *(after - 1), &to = *after;
  const double took = to.seconds - from.seconds;
  if (took <= 0) return to.bytes;
  return from.bytes + (to.bytes - from.bytes) * (seconds - from.seconds) / took;
}

std::vector<double> ThroughputMeter::window_rates(double begin) const {
  const double length = (pieces_.back().seconds - begin) / static_cast<double>(kWindows);
  if (length <= 0) return {};
  std::vector<double> rates;
  for (std::size_t i = 0; i < kWindows; ++i) {
    const double from = begin + static_cast<double>(i) * length;
    rates.push_back((bytes_by(from + length) - bytes_by(from)) / length);
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

// A token bucket that has rested lets its first bytes pass at any speed, sockets have room for more
// of them, and TCP begins slowly: so the beginning is left out. Of the rest it is the mean, or that
// of the middle windows when it is higher: bytes that wait for a lost packet come later and are not
// missing, but the time is in which a machine is busy elsewhere.
double ThroughputMeter::sustained_rate() const {
  const std::vector<double> rates = window_rates(kBegin * pieces_.back().seconds);
  if (rates.empty()) return 0;
  return std::max(mean(rates), mean(std::span(rates).subspan(kOutliers, kWindows - 2 * kOutliers)));
}

double ThroughputMeter::highest_rate() const {
  const std::vector<double> rates = window_rates(0);
  return rates.empty() ? 0 : rates.back();
}

}  // namespace lockstep::cluster::detail
