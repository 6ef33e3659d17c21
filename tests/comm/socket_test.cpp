// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "lockstep/base/network_pair.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

std::string congestion_control(const Socket& socket) {
  char name[64] = "";
  socklen_t size = sizeof name - 1;
  ::getsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, name, &size);
  return name;
}

// In the network that this thread is in; false where it may not be.
bool choose_for_system(const std::string& name) {
  std::ofstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  return static_cast<bool>(file << name << std::flush);
}

struct Connection {
  Socket near, far;
};

Connection connect_both() {
  const Socket listener = listen_on({NetworkPair::address(0), 0});
  Connection ends{connect_to(local_endpoint(listener), "", Clock::now() + 5s), Socket()};
  pollfd waiting{listener.fd(), POLLIN, 0};
  ::poll(&waiting, 1, 5000);
  ends.far = accept_from(listener);
  return ends;
}

// In a network of its own.
void expect_in_network(void (*body)()) {
  const std::string reason = NetworkPair::why_not();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const NetworkPair pair;
  std::jthread([&] {
    NetworkPair::enter(pair.path(0));
    body();
  }).join();
}

void expect_pacing_only_far_away() {
  if (!choose_for_system("bbr")) GTEST_SKIP() << "this system has no bbr";
  ASSERT_EQ(congestion_control(Socket(::socket(AF_INET, SOCK_STREAM, 0))), "bbr");
  const Connection ends = connect_both();
  for (const Socket* end : {&ends.near, &ends.far}) {
    restore_pacing(*end);
    EXPECT_NE(congestion_control(*end), "bbr");
    restore_pacing(*end, 0us);
    EXPECT_EQ(congestion_control(*end), "bbr");
  }
}

TEST(Sockets, AreNotPacedWhereTheRoundTripIsShortAndAreAsTheSystemSaysWhereItIsLong) {
  expect_in_network(expect_pacing_only_far_away);
}

void expect_others_stay() {
  if (!choose_for_system("reno")) GTEST_SKIP() << "the system's choice cannot be changed";
  const Connection ends = connect_both();
  for (const Socket* end : {&ends.near, &ends.far}) {
    restore_pacing(*end, 0us);
    EXPECT_EQ(congestion_control(*end), "reno");
  }
}

TEST(Sockets, KeepWhatTheSystemChoosesWhereThatDoesNotPace) {
  expect_in_network(expect_others_stay);
}

}  // namespace
}  // namespace lockstep::comm
