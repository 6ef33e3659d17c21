// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barrier>
#include <mutex>
#include <thread>

#include "lockstep/comm/authenticated_listener.h"
#include "lockstep/comm/transports/tcp.h"
#include "lockstep/comm/transports/zmq.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMegabyte = 1 << 20;
constexpr const char* kSecret = "secret";

// Two ranks in threads of this process, which tell each other bytes through memory. `see` is shown
// what rank 0 tells, before rank 1 hears of it.
class Pair {
 public:
  explicit Pair(std::function<void(const std::string&)> see) : see_(std::move(see)) {}

  template <class Connect>
  void connect(Connect&& connect) {
    std::thread other([&] { transports_[1] = connect(bootstrap(1)); });
    transports_[0] = connect(bootstrap(0));
    other.join();
  }
  std::unique_ptr<Transport>& operator[](std::size_t rank) { return transports_[rank]; }

 private:
  Bootstrap bootstrap(int rank) {
    return {rank, {"a", "b"}, "127.0.0.1", kSecret, 60s, [this, rank](const std::string& bytes) {
              given_[rank] = bytes;
              if (rank == 0) see_(bytes);
              meeting_.arrive_and_wait();
              std::vector<std::string> all{given_[0], given_[1]};
              meeting_.arrive_and_wait();
              return all;
            }};
  }
  std::function<void(const std::string&)> see_;
  std::string given_[2];
  std::barrier<> meeting_{2};
  std::unique_ptr<Transport> transports_[2];
};

void expect_works(Pair& pair) {
  std::byte sent{7}, got{0};
  Transfer send{Transfer::Kind::send, 1, {&sent, 1}},
      receive{Transfer::Kind::receive, 0, {&got, 1}};
  std::thread other([&] { pair[1]->exchange({&receive, 1}, Clock::now() + 60s, "test"); });
  pair[0]->exchange({&send, 1}, Clock::now() + 60s, "test");
  other.join();
  EXPECT_EQ(got, sent);
}

// A stranger's beginning of ZMTP 3 (rfc.zeromq.org/spec/23): a greeting that asks for CURVE, and
// the head of a command of `size` bytes.
std::string forged_command(std::uint64_t size) {
  std::string bytes = "\xff" + std::string(8, '\0') + "\x7f\x03" + std::string(1, '\0') + "CURVE";
  bytes.resize(64, '\0');
  bytes += '\x06';
  for (int i = 7; i >= 0; --i) bytes += static_cast<char>(size >> (8 * i));
  return bytes;
}

// How much of `bytes` the other side takes until it hangs up, or has nothing read for a while.
std::size_t take_up_to(const Endpoint& at, const std::string& begin, std::size_t bytes) {
  const Socket socket = connect_to(at, "", Clock::now() + 60s);
  const std::string block(1 << 16, 'x');
  std::size_t sent = 0;
  for (std::string next = begin; sent < bytes; next = block) {
    pollfd room{socket.fd(), POLLOUT, 0};
    if (::poll(&room, 1, 2000) <= 0) break;
    const ssize_t count = ::send(socket.fd(), next.data(), next.size(), MSG_NOSIGNAL);
    if (count < 0) break;
    sent += static_cast<std::size_t>(count);
  }
  return sent;
}

// "key\ntcp://127.0.0.1:1234\n..."
Endpoint zmq_endpoint(const std::string& card) {
  const std::size_t begin = card.find("tcp://") + 6;
  return parse_endpoint(card.substr(begin, card.find_first_of("\n\0", begin) - begin));
}

// Of this process, now.
std::size_t resident_bytes() {
  long pages = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  const int found = std::fscanf(file, "%ld %ld", &pages, &resident);
  std::fclose(file);
  return found == 2 ? static_cast<std::size_t>(resident) * 4096 : 0;
}

TEST(Strangers, CannotFillAZmqListenersMemory) {
  constexpr std::size_t kOffered = 128 * kMegabyte;
  std::size_t taken = 0, grown = 0;
  Pair pair([&](const std::string& card) {
    if (card.find("tcp://") == std::string::npos) return;  // the monitor's
    const std::size_t before = resident_bytes();
    taken = take_up_to(zmq_endpoint(card), forged_command(std::uint64_t{4} << 30), kOffered);
    const std::size_t after = resident_bytes();
    grown = after > before ? after - before : 0;
  });
  pair.connect(connect_zmq);
  expect_works(pair);
  EXPECT_GT(taken, 0u);
  EXPECT_LT(taken, 32 * kMegabyte);  // what sockets hold, and no more
  EXPECT_LT(grown, 32 * kMegabyte);
}

TEST(Strangers, CannotMakeAZmqFrameOfAnyLengthAboveAPieces) {
  std::size_t taken = 0;
  Pair pair([&](const std::string& card) {
    if (card.find("tcp://") == std::string::npos) return;
    taken = take_up_to(zmq_endpoint(card), forged_command(64 * kMegabyte), 48 * kMegabyte);
  });
  pair.connect(connect_zmq);
  expect_works(pair);
  EXPECT_LT(taken, 32 * kMegabyte);
}

// Silent connections, more than a listener keeps and more files than the process may open.
TEST(Strangers, ThatAreManyAndSilentDoNotKeepAMemberOut) {
  AuthenticatedListener listener({"127.0.0.1", 0}, kSecret);
  std::vector<Socket> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connect_to(listener.endpoint(), "", Clock::now() + 60s));
    if (i % 50 == 49) listener.accept();
  }
  std::thread member([&] {
    connect_authenticated(listener.endpoint(), "", kSecret, 5, Clock::now() + 60s, "test");
  });
  std::vector<AuthenticatedConnection> admitted;
  for (const Deadline end = Clock::now() + 60s; admitted.empty() && Clock::now() < end;)
    admitted = listener.accept();
  member.join();
  ASSERT_EQ(admitted.size(), 1u);
  EXPECT_EQ(admitted[0].label, 5u);
}

TEST(Strangers, OfAnotherVersionOfTheHandshakeAreTold) {
  AuthenticatedListener listener({"127.0.0.1", 0}, kSecret);
  const Socket other = connect_to(listener.endpoint(), "", Clock::now() + 60s);
  const std::string bytes = "lockstep\r\n\x1a\x01" + std::string(72, 'x');
  ASSERT_EQ(::send(other.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  for (const Deadline end = Clock::now() + 60s;
       listener.refusals().count() == 0 && Clock::now() < end;)
    listener.accept();
  ASSERT_EQ(listener.refusals().last().size(), 1u);
  EXPECT_NE(listener.refusals().last()[0].find(
                "it speaks version 1 of the handshake, this side version 2"),
            std::string::npos);
}

TEST(Strangers, AreDroppedWhereNoMoreFilesCanBeOpened) {
  AuthenticatedListener listener({"127.0.0.1", 0}, kSecret);
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i)
    strangers.push_back(connect_to(listener.endpoint(), "", Clock::now() + 60s));
  Socket member = connect_to(listener.endpoint(), "", Clock::now() + 60s);
  const Socket highest(::dup(member.fd()));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{static_cast<rlim_t>(highest.fd()) + 4, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int i = 0; i < 30; ++i) listener.accept();
  // The member, which came last, was let in to the handshake: its challenge is here.
  char byte = 0;
  const ssize_t got = ::recv(member.fd(), &byte, 1, MSG_PEEK);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(got, 1);
  EXPECT_FALSE(listener.refusals().last().empty());
}

// Else whoever polls would be told again and again of one that cannot be let in.
TEST(Strangers, AreNotLookedForWhileNoFileCanBeOpened) {
  AuthenticatedListener listener({"127.0.0.1", 0}, kSecret);
  const Socket stranger = connect_to(listener.endpoint(), "", Clock::now() + 60s);
  const int spare = ::dup(stranger.fd());
  ::close(spare);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{static_cast<rlim_t>(spare), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::vector<AuthenticatedConnection> in = listener.accept();
  setrlimit(RLIMIT_NOFILE, &before);
  std::vector<pollfd> watched;
  listener.watch(watched);
  EXPECT_TRUE(in.empty() && watched.empty());
  ASSERT_LT(listener.next_deadline(), Clock::now() + 10s);
  std::this_thread::sleep_until(listener.next_deadline());
  listener.accept();
  listener.watch(watched);
  EXPECT_EQ(watched.size(), 2u);  // for others, and for what this one says
}

}  // namespace
}  // namespace lockstep::comm
