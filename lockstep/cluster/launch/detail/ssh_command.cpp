// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/ssh_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace lockstep::cluster::detail {
namespace {

// As a shell over there reads it back.
std::string shell_quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

}  // namespace

std::vector<std::string> ssh_command(const LaunchOptions& options, const std::string& host) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options.timeout).count();
  std::string program = options.program;
  if (program.empty()) program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = options.ssh;
  // ssh takes the first of two settings: those of the user win.
  for (const std::string& setting :
       {std::string("BatchMode=yes"), fmt::format("ConnectTimeout={}", std::max<long>(1, seconds)),
        std::string("ServerAliveInterval=10"), std::string("ServerAliveCountMax=3")})
    words.insert(words.end(), {"-o", setting});
  words.insert(words.end(), {"-T", "-x", host,
                             fmt::format("exec {} launch --agent --timeout {} --grace {}",
                                         shell_quoted(program), std::max<long>(1, seconds),
                                         std::chrono::duration<double>(options.grace).count())});
  return words;
}

}  // namespace lockstep::cluster::detail
