// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/tensor/philox.h"

namespace lockstep::nn {
namespace {

// The last `context` numbers, filled up behind: a causal net does not look there, and one shape is
// compiled once.
Tensor window_of(const std::vector<std::int64_t>& numbers, std::int64_t context) {
  const Tensor window = Tensor::zeros({1, context}, DType::int64);
  const std::size_t count = std::min(numbers.size(), static_cast<std::size_t>(context));
  std::copy(numbers.end() - static_cast<std::ptrdiff_t>(count), numbers.end(),
            window.data<std::int64_t>());
  return window;
}

std::int64_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

// The first number at which the running sum of probabilities passes a uniform draw.
std::int64_t draw(std::span<const float> logits, double temperature, double uniform) {
  const double highest = logits[static_cast<std::size_t>(likeliest(logits))];
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits)
    sums.push_back(sum += std::exp((static_cast<double>(logit) - highest) / temperature));
  const auto passed = std::upper_bound(sums.begin(), sums.end(), uniform * sum);
  return std::min(passed - sums.begin(), static_cast<std::ptrdiff_t>(logits.size()) - 1);
}

std::int64_t next_number(Block& net, const std::vector<std::int64_t>& numbers,
                         const GenerateOptions& options) {
  const std::vector<float> all = net(window_of(numbers, options.context)).to_vector<float>();
  const std::size_t classes = all.size() / static_cast<std::size_t>(options.context);
  const std::size_t place = std::min(numbers.size(), static_cast<std::size_t>(options.context)) - 1;
  const std::span<const float> logits = std::span(all).subspan(place * classes, classes);
  if (options.temperature == 0) return likeliest(logits);
  const double uniform = unit_float(random_bits({.seed = options.seed}, numbers.size()));
  return draw(logits, options.temperature, uniform);
}

}  // namespace

std::vector<std::int64_t> generate(Block& net, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  if (prompt.empty()) throw InvalidArgument("generate: the prompt is empty");
  if (!(options.temperature >= 0))
    throw InvalidArgument("generate: temperature is {}, expected 0 or more", options.temperature);
  for (std::int64_t i = 0; i < options.length; ++i) {
    prompt.push_back(next_number(net, prompt, options));
    if (options.on_number) options.on_number(prompt.back());
  }
  return prompt;
}

}  // namespace lockstep::nn
