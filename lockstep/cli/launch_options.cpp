// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_options.h"

namespace lockstep::cli {

void add_connect_options(CLI::App& command, ConnectOptions& options, const char* group) {
  CLI::Option* transport =
      command
          .add_option("--transport", options.transport,
                      "How workers are connected; auto: shared memory inside a host, tcp between")
          ->type_name("NAME")
          ->check(CLI::IsMember({"auto", "shm", "tcp", "ucx", "zmq", "mpi"}))
          ->group(group);
  command.add_flag("--secure", options.secure, "Encrypted between all workers: --transport zmq")
      ->excludes(transport)
      ->group(group);
  command
      .add_option("--interface", options.interface,
                  "The network interface of every worker, by name or address; by default the one "
                  "that reaches the launcher")
      ->type_name("NAME")
      ->group(group);
}

}  // namespace lockstep::cli
