// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::nn {

// An error of another language that goes through blocks: the outermost one tells it where in the
// model it happened, as it does with our own errors.
class PlacedError {
 public:
  virtual ~PlacedError() = default;
  // "encoder.2 (Dense(128, relu)): ", or nothing where that was the outermost block itself.
  virtual void set_place(const std::string& path) = 0;
};

}  // namespace lockstep::nn
