// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "lockstep/base/network_pair.h"
#include "tests/message.h"

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

TEST(Ports, ARangeHasTwoEnds) {
  EXPECT_EQ(parse_ports("29400-29410"), (PortRange{29400, 29410}));
  EXPECT_EQ(parse_ports("7"), (PortRange{7, 7}));
  EXPECT_TRUE(parse_ports("").is_any());
  EXPECT_EQ(to_string(parse_ports("1-65535")), "1-65535");
  for (const char* bad : {"-", "1-", "-1", "9-8", "0-1", "1-65536", "a", "1-2-3", " 1-2"})
    EXPECT_EQ(testing::message_of([&] { parse_ports(bad); }),
              fmt::format("ports '{}': expected A-B, two numbers from 1 to 65535", bad));
}

TEST(Ports, EveryPortOfARangeIsTriedOnce) {
  std::vector<std::uint16_t> order = ports_to_try({100, 109});
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, (std::vector<std::uint16_t>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109}));
  EXPECT_EQ(ports_to_try({}), std::vector<std::uint16_t>{0});
}

TEST(Ports, AListenerTakesAFreeOneOfItsRangeAndNoOther) {
  const Socket taken = listen_on({"127.0.0.1", 0});
  const std::uint16_t first = local_endpoint(taken).port;
  const PortRange one{first, first};
  EXPECT_EQ(testing::message_of<IoError>([&] {
              listen_on({"127.0.0.1", 0}, one);
            }),
            fmt::format("127.0.0.1: cannot listen: none of the ports {0}-{0} is free; give the job "
                        "more (--ports)",
                        first));
  const PortRange more{first, static_cast<std::uint16_t>(std::min(first + 50, 65535))};
  const std::uint16_t found = local_endpoint(listen_on({"127.0.0.1", 0}, more)).port;
  EXPECT_GT(found, more.first);
  EXPECT_LE(found, more.last);
}

}  // namespace
}  // namespace lockstep::comm
