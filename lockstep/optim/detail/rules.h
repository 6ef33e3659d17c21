// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <variant>

// The arithmetic of each update rule for one element, in float32. Every operation here is rounded
// exactly by IEEE 754 (no fused or approximate ones), so a vector body, its scalar tail and every
// instruction set give the same bits. Numbers that depend on the step alone are made in double by
// the optimiser, once for each call.
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

struct Sgd {
  static constexpr int kSlots = 0;
  Gradient gradient;
  float rate;
  void step(float& w, float g) const { w -= rate * gradient(g, w); }
};

struct SgdMomentum {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum, take;
  void step(float& w, float g, float& buffer) const {
    buffer = blended(momentum, take, buffer, gradient(g, w));
    w -= rate * buffer;
  }
};

struct Nesterov {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum;
  void step(float& w, float g, float& buffer) const {
    const float slope = gradient(g, w);
    buffer = momentum * buffer + slope;
    w -= rate * (slope + momentum * buffer);
  }
};

struct SignSgd {
  static constexpr int kSlots = 0;
  Gradient gradient;
  float rate, shrink;
  void step(float& w, float g) const { w = shrink * w - rate * sign(gradient(g, w)); }
};

struct Signum {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, shrink, keep, take;
  void step(float& w, float g, float& mean) const {
    mean = blended(keep, take, mean, gradient(g, w));
    w = shrink * w - rate * sign(mean);
  }
};

// Running means of the gradient and of its square: what Adam and its relatives share.
struct Moments {
  float keep1, take1, keep2, take2;
  void advance(float slope, float& mean, float& square) const {
    mean = blended(keep1, take1, mean, slope);
    square = blended(keep2, take2, square, slope * slope);
  }
};

// Adam, and AdamW with `shrink` below 1 and no decay in the gradient.
struct Adam {
  static constexpr int kSlots = 2;
  Gradient gradient;
  Moments moments;
  float rate;            // divided by the first correction
  float square_divisor;  // root of the second correction
  float epsilon, shrink;
  void step(float& w, float g, float& mean, float& square) const {
    moments.advance(gradient(g, w), mean, square);
    w = shrink * w - rate * (mean / (std::sqrt(square) / square_divisor + epsilon));
  }
};

// The divisor never shrinks.
struct AmsGrad : Adam {
  static constexpr int kSlots = 3;
  void step(float& w, float g, float& mean, float& square, float& largest) const {
    moments.advance(gradient(g, w), mean, square);
    largest = larger(largest, square);
    w = shrink * w - rate * (mean / (std::sqrt(largest) / square_divisor + epsilon));
  }
};

struct Adamax {
  static constexpr int kSlots = 2;
  Gradient gradient;
  float keep1, take1, keep2, rate, epsilon;
  void step(float& w, float g, float& mean, float& largest) const {
    const float slope = gradient(g, w);
    mean = blended(keep1, take1, mean, slope);
    largest = larger(keep2 * largest, std::abs(slope));
    w -= rate * (mean / (largest + epsilon));
  }
};

struct Nadam {
  static constexpr int kSlots = 2;
  Gradient gradient;
  Moments moments;
  float gradient_rate, mean_rate, square_divisor, epsilon;
  void step(float& w, float g, float& mean, float& square) const {
    const float slope = gradient(g, w);
    moments.advance(slope, mean, square);
    const float divisor = std::sqrt(square) / square_divisor + epsilon;
    w -= (gradient_rate * slope + mean_rate * mean) / divisor;
  }
};

struct AdaGrad {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, epsilon;
  void step(float& w, float g, float& sum) const {
    const float slope = gradient(g, w);
    sum += slope * slope;
    w -= rate * (slope / (std::sqrt(sum) + epsilon));
  }
};

struct AdaDelta {
  static constexpr int kSlots = 2;
  Gradient gradient;
  float rate, keep, take, epsilon;
  void step(float& w, float g, float& square, float& moved) const {
    const float slope = gradient(g, w);
    square = blended(keep, take, square, slope * slope);
    const float delta = std::sqrt(moved + epsilon) / std::sqrt(square + epsilon) * slope;
    moved = blended(keep, take, moved, delta * delta);
    w -= rate * delta;
  }
};

struct RmsProp {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum, keep, take, epsilon;
  float scaled(float slope, float& square) const {
    square = blended(keep, take, square, slope * slope);
    return slope / (std::sqrt(square) + epsilon);
  }
  void step(float& w, float g, float& square) const { w -= rate * scaled(gradient(g, w), square); }
};

struct RmsPropMomentum : RmsProp {
  static constexpr int kSlots = 2;
  void step(float& w, float g, float& square, float& buffer) const {
    buffer = momentum * buffer + scaled(gradient(g, w), square);
    w -= rate * buffer;
  }
};

// The variance is not let below zero, where rounding may take it.
struct CenteredRmsProp : RmsProp {
  static constexpr int kSlots = 2;
  float centered(float slope, float& square, float& mean) const {
    square = blended(keep, take, square, slope * slope);
    mean = blended(keep, take, mean, slope);
    return slope / (std::sqrt(larger(square - mean * mean, 0.0F)) + epsilon);
  }
  void step(float& w, float g, float& square, float& mean) const {
    w -= rate * centered(gradient(g, w), square, mean);
  }
};

struct CenteredRmsPropMomentum : CenteredRmsProp {
  static constexpr int kSlots = 3;
  void step(float& w, float g, float& square, float& mean, float& buffer) const {
    buffer = momentum * buffer + centered(gradient(g, w), square, mean);
    w -= rate * buffer;
  }
};

struct Ftrl {
  static constexpr int kSlots = 2;
  Gradient gradient;  // without decay: that is in the divisor
  float inverse_rate, lambda, beta, decay;
  void step(float& w, float g, float& z, float& square) const {
    const float slope = gradient.clipped(g);
    const float before = std::sqrt(square);
    square += slope * slope;
    const float root = std::sqrt(square);
    z += slope - (root - before) * inverse_rate * w;
    const float divisor = (beta + root) * inverse_rate + decay;
    // What is within lambda becomes zero.
    w = (clamped(z, lambda) - z) / divisor;
  }
};

struct Lars {
  static constexpr int kSlots = 1;
  Gradient gradient;
  float rate, momentum;
  void step(float& w, float g, float& buffer) const {
    buffer = momentum * buffer + rate * gradient(g, w);
    w -= buffer;
  }
  float direction(float, float g, float&) const { return gradient.clipped(g); }
};

// The moments advance when the direction is measured; the step only reads them.
struct Lamb {
  static constexpr int kSlots = 2;
  Gradient gradient;  // without decay: that is in the direction
  Moments moments;
  float rate, mean_divisor, square_divisor, epsilon, decay;
  float towards(float w, float mean, float square) const {
    return (mean / mean_divisor) / (std::sqrt(square) / square_divisor + epsilon) + decay * w;
  }
  void step(float& w, float, float& mean, float& square) const {
    w -= rate * towards(w, mean, square);
  }
  float direction(float w, float g, float& mean, float& square) const {
    moments.advance(gradient.clipped(g), mean, square);
    return towards(w, mean, square);
  }
};

// Every rule there is.
using Rule = std::variant<Sgd, SgdMomentum, Nesterov, SignSgd, Signum, Adam, AmsGrad, Adamax, Nadam,
                          AdaGrad, AdaDelta, RmsProp, RmsPropMomentum, CenteredRmsProp,
                          CenteredRmsPropMomentum, Ftrl, Lars, Lamb>;

}  // namespace lockstep::optim::rules
