// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <csignal>
#include <initializer_list>

#include "lockstep/cli/cli.h"
#include "lockstep/cli/stop_signals.h"

namespace {

// A file or a pipe must never become the standard input, output or error that nobody gave us. What
// was closed still cannot be read or written, but for errors, which nobody wants to hear.
void occupy_standard_streams() {
  for (const int stream : {0, 1, 2})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == 1 ? O_RDONLY : O_WRONLY);
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::cli::end_on_stop_signals();
  occupy_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes is an error of the write, not our end
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file that may not grow (ulimit -f)
  return lockstep::cli::run(argc, argv);
}
