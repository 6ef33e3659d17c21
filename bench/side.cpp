// SPDX-License-Identifier: Apache-2.0
#include "bench/side.h"

#include <fmt/core.h>

#include <algorithm>

namespace lockstep::bench {

Side Side::start(const std::string& label, const std::vector<std::string>& command) {
  Side side{label, std::make_unique<Responder>(command)};
  side.ready = side.process->answer();
  return side;
}

void Side::window(double seconds) {
  facts = process->ask(fmt::format("window {}", seconds));
  rates.push_back(facts["samples_per_s"]);
}

double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

const Side* fastest(const std::vector<Side>& sides) {
  const auto slower = [](const Side& a, const Side& b) { return a.rate() < b.rate(); };
  const auto best = std::max_element(sides.begin(), sides.end(), slower);
  return best == sides.end() ? nullptr : &*best;
}

bool reads_images(const std::string& model) {
  return model == "mnist-lenet" || model.starts_with("cifar");
}

}  // namespace lockstep::bench
