// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

// What the arithmetic of update rules for one element is made of, in float32. Every operation of a
// rule is rounded exactly by IEEE 754 (no fused or approximate ones), so a vector body, its scalar
// tail and every instruction set give the same bits. Numbers that depend on the step alone are made
// in double by the optimiser, once for each call.
namespace lockstep::optim::rules {

// Not std::min and std::max: a NaN in `x` must come through.
inline float clamped(float x, float limit) {
  const float low = x < -limit ? -limit : x;
  return limit < low ? limit : low;
}

inline float larger(float x, float y) { return x < y ? y : x; }

inline float sign(float x) { return static_cast<float>(x > 0.0F) - static_cast<float>(x < 0.0F); }

// A running mean of x.
inline float blended(float keep, float take, float mean, float x) { return keep * mean + take * x; }

// What every rule does first: scale, clip (to infinity where it is off), add the weight decay.
struct Gradient {
  float scale, limit, decay;
  float clipped(float g) const { return clamped(g * scale, limit); }
  float operator()(float g, float w) const { return clipped(g) + decay * w; }
};

// Running means of the gradient and of its square: what Adam and its relatives share.
struct Moments {
  float keep1, take1, keep2, take2;
  void advance(float slope, float& mean, float& square) const {
    mean = blended(keep1, take1, mean, slope);
    square = blended(keep2, take2, square, slope * slope);
  }
};

}  // namespace lockstep::optim::rules
