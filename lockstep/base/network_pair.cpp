// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/network_pair.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kLink = "link0";

// Keeps a namespace until it is killed. Tells how it went.
int hold_namespace(int pipe) {
  const int error = ::unshare(CLONE_NEWNET) == 0 ? 0 : errno;
  if (::write(pipe, &error, sizeof error) != sizeof error || error != 0) return 1;
  while (true) ::pause();
}

}  // namespace

std::string NetworkPair::why_not() {
  if (::geteuid() != 0) return "network namespaces need root";
  for (const char* program : {"ip", "tc", "nsenter"}) {
    try {
      run_process({program, "-V"});
    } catch (const NotFound&) {
      return fmt::format("the program {} is not installed", program);
    }
  }
  try {
    const NetworkPair pair;
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

NetworkPair::NetworkPair() {
  for (const int side : {0, 1}) start(side);
  run(0, {"ip", "link", "add", kLink, "type", "veth", "peer", "name", kLink, "netns",
          std::to_string(holders_[1].pid())});
  for (const int side : {0, 1}) {
    run(side, {"ip", "addr", "add", address(side) + "/24", "dev", kLink});
    run(side, {"ip", "link", "set", "lo", "up"});
    run(side, {"ip", "link", "set", kLink, "up"});
  }
}

void NetworkPair::start(int side) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("pipe: {}", std::strerror(errno));
  holders_[static_cast<std::size_t>(side)] =
      Process::fork([&] { return hold_namespace(ends[1]); }, {.death_signal = SIGKILL});
  ::close(ends[1]);
  int error = EIO;
  const bool told = ::read(ends[0], &error, sizeof error) == sizeof error;
  ::close(ends[0]);
  if (!told || error != 0)
    throw IoError("network namespace: it cannot be made: {}", std::strerror(error));
}

void NetworkPair::run(int side, std::vector<std::string> command) const {
  const std::string holder = std::to_string(holders_[static_cast<std::size_t>(side)].pid());
  const std::vector<std::string> into{"nsenter", "-t", holder, "-n"};
  command.insert(command.begin(), into.begin(), into.end());
  const ProcessResult result = run_process(command, {.deadline = std::chrono::seconds(20)});
  if (result.status != 0)
    throw IoError("network namespace: {} {} failed: {}", command[4], command[5], result.errors);
}

std::string NetworkPair::path(int side) const {
  return fmt::format("/proc/{}/ns/net", holders_[static_cast<std::size_t>(side)].pid());
}

void NetworkPair::enter(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool in = file >= 0 && ::setns(file, CLONE_NEWNET) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (!in) throw IoError("{}: cannot be entered: {}", path, std::strerror(error));
}

void NetworkPair::cut() const { run(0, {"ip", "link", "set", kLink, "down"}); }

// To a hardware address that nobody has.
void NetworkPair::lose(int from_side) const {
  run(from_side, {"ip", "neigh", "replace", address(1 - from_side), "lladdr", "02:00:00:00:00:01",
                  "dev", kLink, "nud", "permanent"});
}

// The bucket holds what the rate brings in a few milliseconds, as much as a switch would.
void NetworkPair::shape(const std::string& rate) const {
  for (const int side : {0, 1}) shape(side, rate, "256kb");
}

void NetworkPair::shape(int from_side, const std::string& rate, const std::string& burst) const {
  run(from_side, {"tc", "qdisc", "replace", "dev", kLink, "root", "tbf", "rate", rate, "burst",
                  burst, "latency", "50ms"});
}

}  // namespace lockstep
