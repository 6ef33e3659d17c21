// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_options.h"

#include <cstdlib>
#include <sstream>

#include "lockstep/cli/command.h"

namespace lockstep::cli {

std::vector<std::string> ssh_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) throw WrongUsage("--ssh: is empty, expected a command such as ssh");
  return words;
}

CLI::Validator more_than_zero() {
  return CLI::Validator(
      [](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (end != text.c_str() && *end == '\0' && value > 0) return std::string();
        return "got " + text + ", expected a number above 0";
      },
      "");
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

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
