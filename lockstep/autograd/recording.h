// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::autograd {

// `paused`: what is computed has no history, for a tracer either. `off`: nobody has asked.
enum class Recording : std::uint8_t { off, on, paused };

// While it lives, recording is as told, the mode and the interceptors left as they are.
class RecordingFlag {
 public:
  explicit RecordingFlag(Recording state);
  ~RecordingFlag();
  RecordingFlag(const RecordingFlag&) = delete;
  RecordingFlag& operator=(const RecordingFlag&) = delete;

 private:
  Recording saved_;
};

bool is_paused();

}  // namespace lockstep::autograd
