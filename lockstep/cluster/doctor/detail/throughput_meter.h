// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::cluster::detail {

// When the bytes of a stream have come, in seconds since its beginning.
class ThroughputMeter {
 public:
  void add(double seconds, std::size_t bytes);

  // Bytes a second of the last `count` pieces; 0 when that is not known yet.
  double latest_rate(std::size_t count) const;
  // Bytes a second that the link keeps up.
  double sustained_rate() const;
  // Bytes a second in its best time.
  double highest_rate() const;

 private:
  struct Piece {
    double seconds;
    double bytes;  // that have come by then
  };
  double bytes_by(double seconds) const;
  // Of windows of equal length from `begin` to the end, in order of size; empty: there is no time.
  std::vector<double> window_rates(double begin) const;

  std::vector<Piece> pieces_{{0, 0}};
};

}  // namespace lockstep::cluster::detail
