// SPDX-License-Identifier: Apache-2.0
// The memory that processes of one host show each other, and the connection beside it.
#include "lockstep/comm/detail/message_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "lockstep/comm/detail/local_link.h"
#include "tests/comm/message_worlds.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::comm::detail {
namespace {

using lockstep::testing::message_of;

constexpr std::size_t kBytes = 1 << 20;

struct Ends {
  std::shared_ptr<MessageMemory> one = MessageMemory::make(kBytes);
  std::shared_ptr<MessageMemory> two = MessageMemory::make(kBytes);
  std::shared_ptr<const PeerMemory> of_one = PeerMemory::map(one->file(), kBytes);
  std::shared_ptr<const PeerMemory> of_two = PeerMemory::map(two->file(), kBytes);
  Ends() {
    one->set_reader(of_two);
    two->set_reader(of_one);
  }
};

TEST(MessageMemory, WhatIsWrittenOnOneSideIsReadOnTheOther) {
  Ends ends;
  const auto buffer = ends.one->allocate(5000);
  ASSERT_TRUE(buffer);
  const auto bytes = message_bytes(5000, 3);
  std::copy(bytes.begin(), bytes.end(), buffer->bytes.begin());
  const LentPlace place = ends.one->lend(buffer->bytes);
  const auto seen = ends.of_one->at(place, 5000);
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), bytes.begin()));
  EXPECT_NE(seen.data(), buffer->bytes.data());
}

TEST(MessageMemory, ABlockIsTakenUntilBothSidesHaveLetItGo) {
  Ends ends;
  auto buffer = ends.one->allocate(kBytes);
  ASSERT_TRUE(buffer);
  EXPECT_FALSE(ends.one->allocate(1)) << "there is no more";
  const LentPlace first = ends.one->lend(buffer->bytes);
  const LentPlace again = ends.one->lend(buffer->bytes.subspan(64));
  EXPECT_EQ(first.block, again.block);
  buffer.reset();
  EXPECT_FALSE(ends.one->allocate(1)) << "the other side reads it";
  ends.two->give_back(first.block);
  EXPECT_FALSE(ends.one->allocate(1)) << "it was lent twice";
  ends.two->give_back(first.block);
  EXPECT_TRUE(ends.one->allocate(kBytes));
}

TEST(MessageMemory, WhatOneHoldsTheOthersUseAround) {
  Ends ends;
  auto first = ends.one->allocate(kBytes / 4);
  auto held = ends.one->allocate(kBytes / 4);
  auto last = ends.one->allocate(kBytes / 2);
  ASSERT_TRUE(first && held && last);
  EXPECT_FALSE(ends.one->allocate(64));
  const std::byte* begin = first->bytes.data();
  first.reset();
  last.reset();
  EXPECT_FALSE(ends.one->allocate(kBytes * 3 / 4)) << "not in one piece";
  const auto again = ends.one->allocate(kBytes / 4);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes.data(), begin);
  EXPECT_TRUE(ends.one->allocate(kBytes / 2));
}

TEST(MessageMemory, APlaceOutsideIsRefused) {
  const Ends ends;
  const LentPlace lies[] = {{kMostLent, 0}, {0, kBytes + 1}, {0, ~std::uint64_t{0}}, {0, 64}};
  for (const LentPlace& lie : lies)
    EXPECT_THROW(ends.of_one->at(lie, kBytes), Corrupt) << lie.block << " " << lie.offset;
  EXPECT_THROW(ends.of_one->at({0, 64}, ~std::uint64_t{0} - 32), Corrupt);
  EXPECT_EQ(ends.of_one->at({0, 0}, kBytes).size(), kBytes);
}

TEST(MessageMemory, WhatCouldBeCutOffOrIsTooLargeIsNotMapped) {
  const Socket loose(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.fd(), 2 * kBytes), 0);
  EXPECT_FALSE(PeerMemory::map(loose.fd(), 2 * kBytes));
  ASSERT_EQ(::fcntl(loose.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_TRUE(PeerMemory::map(loose.fd(), 2 * kBytes));
  const auto memory = MessageMemory::make(kBytes);
  EXPECT_FALSE(PeerMemory::map(memory->file(), kBytes - 64));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Socket pipe(ends[0]), other(ends[1]);
  EXPECT_FALSE(PeerMemory::map(pipe.fd(), kBytes));
}

TEST(MessageMemory, NobodyElseCanWriteIt) {
  const auto memory = MessageMemory::make(kBytes);
  const Socket again(::open(fmt::format("/proc/self/fd/{}", memory->file()).c_str(), O_RDWR));
  ASSERT_TRUE(again);
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.fd(), 0), MAP_FAILED);
  EXPECT_LT(::pwrite(again.fd(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(again.fd(), 0), 0);
}

// Two ends of a connection inside this process.
struct Links {
  Ends ends;
  int sockets[2] = {-1, -1};
  std::unique_ptr<LocalLink> one, two;
  Links() {
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0,
          "socketpair");
    one = std::make_unique<LocalLink>(Socket(sockets[0]), ends.one, ends.of_two);
    two = std::make_unique<LocalLink>(Socket(sockets[1]), ends.two, ends.of_one);
  }
};

std::optional<Frame> receive(LocalLink& link) {
  link.set_readable();
  return link.receive();
}

// Frames of any length, lent and not, more than the socket has room for.
TEST(LocalLink, FramesArriveAsTheyWereSent) {
  const std::uint64_t seed = lockstep::testing::seed_of_this_run();
  std::mt19937_64 random(seed);
  Links links;
  std::uint64_t sent = 0, received = 0, lent = 0;
  std::deque<std::vector<std::byte>> under_way;
  std::optional<Frame> waiting;
  while (received < 2000) {
    while (sent < 2000) {
      if (!waiting) {
        const bool is_long = random() % 4 == 0;
        auto bytes = message_bytes(random() % (is_long ? Payload::kLongestSegment : 400), random());
        Payload payload =
            share(Payload().add(bytes), random() % 2 == 0 ? links.ends.one.get() : nullptr);
        lent += links.ends.one->contains(payload.segments(0)[0].bytes) ? 1 : 0;
        waiting = Frame{{}, payload.segments(0)[0]};
        waiting->header.message = sent;
        under_way.push_back(std::move(bytes));
      }
      if (!links.one->send(*waiting)) break;
      waiting.reset();
      ++sent;
    }
    links.one->send_rest();
    while (const auto frame = receive(*links.two)) {
      ASSERT_EQ(frame->header.message, received) << "seed " << seed;
      ASSERT_TRUE(std::equal(frame->body.bytes.begin(), frame->body.bytes.end(),
                             under_way.front().begin(), under_way.front().end()))
          << "seed " << seed;
      under_way.pop_front();
      ++received;
    }
    receive(*links.one);  // the word that something was taken
  }
  EXPECT_GT(lent, 100u) << "seed " << seed;
}

TEST(LocalLink, ALyingPeerIsFoundOut) {
  const auto head = [](std::uint64_t bytes, std::uint32_t block, std::uint64_t offset) {
    FrameHeader header;
    header.kind = FrameHeader::Kind::request;
    std::string text = to_bytes(header);
    put_number(text, bytes, 8);
    put_number(text, block, 4);
    put_number(text, offset, 8);
    return text;
  };
  const std::string lies[] = {head(kBytes, 0, 64),
                              head(64, kMostLent, 0),
                              head(64, 0, kBytes),
                              head(~std::uint64_t{0}, 0, 64),
                              head(Payload::kLongestSegment + 1, 0xffffffff, 0),
                              std::string(200, '\x7f')};
  for (const std::string& lie : lies) {
    const Links links;
    ASSERT_EQ(::send(links.sockets[0], lie.data(), lie.size(), 0),
              static_cast<ssize_t>(lie.size()));
    EXPECT_THROW(receive(*links.two), Corrupt);
  }
}

// Frames that are lent take no room in the socket: how many are on the way is counted.
TEST(LocalLink, OfWhatNobodyTakesOnlySoMuchIsOnTheWay) {
  Ends ends;
  ends.one = MessageMemory::make(2 * kMostUntaken);
  ends.of_one = PeerMemory::map(ends.one->file(), 2 * kMostUntaken);
  ends.one->set_reader(ends.of_two);
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  LocalLink one(Socket(sockets[0]), ends.one, ends.of_two);
  LocalLink two(Socket(sockets[1]), ends.two, ends.of_one);
  std::vector<MessageBuffer> buffers;
  for (int i = 0; i < 6; ++i) buffers.push_back(*ends.one->allocate(kLentAtOnce));
  const auto send = [&](int i) {
    return one.send({{}, {buffers.at(static_cast<std::size_t>(i)).bytes, nullptr}});
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(send(i)) << i;
  EXPECT_FALSE(send(4));
  EXPECT_TRUE(one.send(Frame{})) << "short ones pass";
  EXPECT_FALSE(receive(one)) << "no word yet";
  EXPECT_TRUE(receive(two));
  pollfd word{one.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&word, 1, 0), 1) << "who waits is told";
  EXPECT_FALSE(receive(one));
  EXPECT_TRUE(send(4));
  EXPECT_FALSE(send(5));
}

}  // namespace
}  // namespace lockstep::comm::detail
