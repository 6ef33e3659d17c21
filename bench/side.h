// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/responder.h"

namespace lockstep::bench {

// One side of a benchmark: a process of its own that computes only while it is asked. Sides take
// turns, window by window, and what is reported is the median over the rounds of the ratio within a
// round: what the machine does meanwhile then meets all alike.
struct Side {
  std::string label;
  std::unique_ptr<Responder> process;
  Json ready = {};  // what it said first
  std::vector<double> rates = {};
  Json facts = {};  // what it said last

  // Waits until the process is ready. Throws IoError when it cannot be.
  static Side start(const std::string& label, const std::vector<std::string>& command);
  void window(double seconds);
  double rate() const { return median(rates); }
};

double median_ratio(const std::vector<double>& a, const std::vector<double>& b);

// The fastest; null when there is none.
const Side* fastest(const std::vector<Side>& sides);

// Whether PyTorch has a second memory format to try.
bool reads_images(const std::string& model);

}  // namespace lockstep::bench
