// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <utility>

namespace lockstep::cluster::detail {

// Writes to our standard output and error, where a reader may take their time: meanwhile `look` is
// called, and says whether to wait on.
class InterruptibleWriter {
 public:
  // `wake`: a file descriptor that is readable when there is something to look at.
  InterruptibleWriter(int wake, std::function<bool()> look) : wake_(wake), look_(std::move(look)) {}

  // What cannot be written, or is not to be waited for, is lost: the job goes on.
  void write(int stream, std::string_view bytes) const;

 private:
  int wake_;
  std::function<bool()> look_;
};

}  // namespace lockstep::cluster::detail
