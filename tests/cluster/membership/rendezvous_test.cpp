// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "lockstep/base/host_name.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/comm/interfaces.h"
#include "lockstep/comm/messages/message_client.h"
#include "tests/cluster/child.h"
#include "tests/cluster/membership/end_of.h"
#include "tests/cluster/membership/rendezvous_parts.h"
#include "tests/event.h"
#include "tests/message.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::contains;
using testing::coordinator_options;
using testing::end_of;
using testing::member_of;
using testing::message_of;
using testing::report;
using testing::text_of;

comm::Socket connect_raw(const Coordinator& coordinator) {
  return comm::connect_to(coordinator.endpoint(), "", comm::Clock::now() + 2s);
}

// Until the other end has closed it.
void await_end(const comm::Socket& socket) {
  const auto end = comm::Clock::now() + 10s;
  char block[4096];
  while (comm::Clock::now() < end) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    ::poll(&waiting, 1, 1000);
    const ssize_t got = ::recv(socket.fd(), block, sizeof block, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return;
  }
  throw std::runtime_error("the other end does not close");
}

void send_raw(const comm::Socket& socket, std::string_view bytes) {
  EXPECT_EQ(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

void expect_members_meet(const std::string& address) {
  CoordinatorOptions options = coordinator_options(3);
  options.listen.host = address;
  Coordinator coordinator(options);
  std::vector<Child> members;
  for (int wish : {2, -1, 0})
    members.emplace_back([&, wish] {
      RendezvousOptions own = member_of(coordinator, 3);
      own.rank = wish;
      own.host = fmt::format("host{}", wish);
      return report(own);
    });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(members[0].result(), "2/3 host0 host-1 host2 0 10 20");
  EXPECT_EQ(members[1].result(), "1/3 host0 host-1 host2 0 10 20");
  EXPECT_EQ(members[2].result(), "0/3 host0 host-1 host2 0 10 20");
}

TEST(Rendezvous, MembersMeetAndGetTheRanksTheyWishOrAFreeOne) { expect_members_meet("127.0.0.1"); }

TEST(Rendezvous, MembersMeetOverIpv6) {
  if (comm::find_interfaces("lo").size() < 2) GTEST_SKIP() << "no IPv6 on loopback";
  expect_members_meet("::1");
}

TEST(Rendezvous, AMemberMayComeBeforeTheCoordinator) {
  CoordinatorOptions options = coordinator_options(1);
  RendezvousOptions own;
  {
    const Coordinator gone(options);
    own = member_of(gone, 1);
    options.listen = gone.endpoint();
  }
  own.host = "here";
  Child late([&] {
    std::this_thread::sleep_for(300ms);
    Coordinator coordinator(options);
    return end_of(coordinator);
  });
  EXPECT_EQ(report(own), "0/1 here 0");
  EXPECT_EQ(late.result(), "done");
}

TEST(Rendezvous, AWrongSecretIsRefusedAtOnceAndTheOthersHearOfItAtTheDeadline) {
  Coordinator coordinator(coordinator_options(2, 800ms));
  Child good([&] { return report(member_of(coordinator, 2)); });
  Child bad([&] {
    RendezvousOptions own = member_of(coordinator, 2);
    own.secret = "open barley";
    return report(own);
  });
  const std::string port = to_string(coordinator.endpoint()), outcome = end_of(coordinator);
  EXPECT_EQ(bad.result(), "Refused: rendezvous: " + port +
                              ": refused: the job's secret is not the one given here");
  EXPECT_PRED2(contains, outcome,
               "Timeout: rendezvous at " + port + ": 1 of 2 members joined within 0.8 s; there: ");
  EXPECT_PRED2(contains, outcome, "it does not know the job's secret");
  EXPECT_EQ(good.result(), outcome);
}

TEST(Rendezvous, AMissingSecretIsAnError) {
  EXPECT_EQ(message_of([] { Coordinator c(CoordinatorOptions{}); }),
            "rendezvous: the job has no secret; expected one for every job");
  RendezvousOptions own;
  own.coordinator = {"head", 5000};
  EXPECT_EQ(message_of([&] { Rendezvous r(own); }),
            "rendezvous: the job's secret is missing; it comes from whoever started head:5000");
}

TEST(Rendezvous, GarbageSilenceAndSlownessOnThePortDoNotDisturbTheMembers) {
  Coordinator coordinator(coordinator_options(2));
  const testing::Event sent;
  Child stranger([&] {
    const comm::Socket garbage = connect_raw(coordinator), half_open = connect_raw(coordinator),
                       slow = connect_raw(coordinator);
    send_raw(garbage, std::string(4000, 'G'));
    sent.set();
    for (int i = 0; i < 100; ++i) {
      if (::send(slow.fd(), "l", 1, MSG_NOSIGNAL) < 0) break;
      std::this_thread::sleep_for(10ms);
    }
    return std::string("sent");
  });
  sent.await();
  std::vector<Child> members;
  for (int i = 0; i < 2; ++i)
    members.emplace_back([&] { return report(member_of(coordinator, 2)).substr(1, 2); });
  EXPECT_EQ(end_of(coordinator), "done");
  for (Child& member : members) EXPECT_EQ(member.result(), "/2");
  EXPECT_EQ(stranger.result(), "sent");
}

TEST(Rendezvous, TheCoordinatorSaysWhomItTurnedAway) {
  CoordinatorOptions options = coordinator_options(1, 600ms);
  options.handshake_timeout = 200ms;
  Coordinator coordinator(options);
  Child stranger([&] {
    const comm::Socket garbage = connect_raw(coordinator), silent = connect_raw(coordinator);
    send_raw(garbage, std::string(200, 'G'));
    await_end(silent);
    return std::string();
  });
  const std::string outcome = end_of(coordinator);
  EXPECT_PRED2(contains, outcome, "it does not speak Lockstep's protocol");
  EXPECT_PRED2(contains, outcome, "it sent 0 of 84 bytes of its proof in 200 ms");
}

TEST(Rendezvous, APortInUseAndAForeignAddressAreNamed) {
  Coordinator coordinator(coordinator_options(1));
  CoordinatorOptions second = coordinator_options(1);
  second.listen = coordinator.endpoint();
  EXPECT_EQ(message_of<IoError>([&] { Coordinator c(second); }),
            to_string(second.listen) + ": cannot listen: Address already in use");
  second.listen = {"192.0.2.250", 5000};
  EXPECT_EQ(message_of<IoError>([&] { Coordinator c(second); }),
            "192.0.2.250:5000: cannot listen: Cannot assign requested address");
}

TEST(Rendezvous, ACoordinatorThatIsNotThereIsATimeoutThatListsTheInterfaces) {
  RendezvousOptions own;
  {
    Coordinator gone(coordinator_options(1));
    own = member_of(gone, 1);
  }
  own.timeout = 300ms;
  const std::string text = message_of<comm::Timeout>([&] { Rendezvous r(own); });
  EXPECT_PRED2(contains, text,
               "rendezvous: " + to_string(own.coordinator) +
                   ": cannot connect: Connection refused (tried for 0.");
  EXPECT_PRED2(contains, text, "; interfaces tried: lo (127.0.0.1); there are ");
}

TEST(Rendezvous, AHostWithoutAnAddressIsATimeoutThatNamesIt) {
  RendezvousOptions own;
  own.coordinator = {"no-such-host.invalid", 5000};
  own.secret = "x";
  own.timeout = 300ms;
  EXPECT_PRED2(contains, message_of<comm::Timeout>([&] { Rendezvous r(own); }),
               "no-such-host.invalid:5000: the host's address is not known: ");
}

TEST(Rendezvous, AServerThatSaysNothingIsATimeout) {
  const comm::Socket silent = comm::listen_on({"127.0.0.1", 0});
  RendezvousOptions own;
  own.coordinator = comm::local_endpoint(silent);
  own.secret = "x";
  own.timeout = 300ms;
  EXPECT_PRED2(contains, message_of<comm::Timeout>([&] { Rendezvous r(own); }),
               to_string(own.coordinator) + ": connected, but it sent 0 of 44 bytes");
}

TEST(Rendezvous, AServerOfAnotherKindIsNamed) {
  const comm::Socket listener = comm::listen_on({"127.0.0.1", 0});
  const comm::Endpoint at = comm::local_endpoint(listener);
  Child server([&] {
    pollfd waiting{listener.fd(), POLLIN, 0};
    ::poll(&waiting, 1, 5000);
    const comm::Socket client = comm::accept_from(listener);
    send_raw(client, "220 mail.example.org ESMTP: what can I do for you today?\r\n");
    await_end(client);
    return std::string();
  });
  RendezvousOptions own;
  own.coordinator = at;
  own.secret = "x";
  own.timeout = 3s;
  EXPECT_EQ(message_of<Corrupt>([&] { Rendezvous r(own); }),
            "rendezvous: " + to_string(at) + ": it does not speak Lockstep's protocol");
}

TEST(Rendezvous, AnInterfaceThatDoesNotExistIsNamedWithThoseThatDo) {
  RendezvousOptions own;
  own.coordinator = {"127.0.0.1", 5000};
  own.secret = "x";
  own.interface = "wlan7";
  const std::string text = message_of<NotFound>([&] { Rendezvous r(own); });
  EXPECT_PRED2(contains, text, "interface 'wlan7': there is none");
  EXPECT_PRED2(contains, text, "lo (127.0.0.1)");
}

TEST(Rendezvous, AnInterfaceCanBeChosenByNameOrAddress) {
  for (const char* interface : {"lo", "127.0.0.1"}) {
    Coordinator coordinator(coordinator_options(1));
    Child member([&] {
      RendezvousOptions own = member_of(coordinator, 1);
      own.interface = interface;
      return Rendezvous(own).address();
    });
    EXPECT_EQ(end_of(coordinator), "done");
    EXPECT_EQ(member.result(), "127.0.0.1");
  }
}

// Two members, the second of which differs by what `change` does; both hear the same reason.
std::string clash(const std::function<void(RendezvousOptions&)>& change) {
  Coordinator coordinator(coordinator_options(2));
  const auto start = [&](const char* host, bool different) {
    return Child([&, host, different] {
      if (different) std::this_thread::sleep_for(200ms);
      RendezvousOptions own = member_of(coordinator, 2);
      own.host = host;
      if (different) change(own);
      return report(own);
    });
  };
  Child one = start("alpha", false), other = start("beta", true);
  const std::string outcome = end_of(coordinator);
  EXPECT_EQ(one.result(), outcome);
  EXPECT_EQ(other.result(), outcome);
  return outcome;
}

TEST(Rendezvous, MembersThatDoNotFitTogetherAllHearWhy) {
  EXPECT_PRED2(contains, clash([](auto& own) { own.version = "2.0"; }),
               "does not fit: its version is 2.0, that of alpha is 1.0");
  EXPECT_PRED2(contains, clash([](auto& own) { own.configuration = "decaf"; }),
               "does not fit: its configuration differs from that of alpha: it is decaf, not "
               "c0ffee");
  EXPECT_PRED2(contains, clash([](auto& own) { own.workers = 3; }),
               "does not fit: it expects 3 members, this job has 2");
}

TEST(Rendezvous, OfConfigurationsThatDifferEachItemIsNamed) {
  const auto change = [](const std::string& seed, const std::string& batch) {
    return "{\n  \"seed\": " + seed + ",\n  \"recipe\": \"mlp\",\n  \"batch\": " + batch + "\n}\n";
  };
  Coordinator coordinator(coordinator_options(2));
  RendezvousOptions first = member_of(coordinator, 2), second = first;
  first.configuration = change("1", "64");
  first.rank = 0;
  second.configuration = change("2", "32");
  second.rank = 1;
  Child one([&] { return report(first); });
  Child other([&] {
    std::this_thread::sleep_for(200ms);
    return report(second);
  });
  const std::string outcome = end_of(coordinator);
  const bool in_order = outcome.find("batch is 32, not 64; seed is 2, not 1") != std::string::npos;
  EXPECT_TRUE(in_order ||
              outcome.find("batch is 64, not 32; seed is 1, not 2") != std::string::npos)
      << outcome;
  EXPECT_EQ(outcome.find("recipe"), std::string::npos) << outcome;
  EXPECT_EQ(one.result(), outcome);
}

TEST(Rendezvous, ARankIsGivenOnce) {
  Coordinator coordinator(coordinator_options(2));
  std::vector<Child> members;
  for (int i = 0; i < 2; ++i)
    members.emplace_back([&] {
      RendezvousOptions own = member_of(coordinator, 2);
      own.rank = 1;
      own.host = "alpha";
      return report(own);
    });
  const std::string outcome = end_of(coordinator);
  EXPECT_PRED2(contains, outcome,
               "Refused: rendezvous at " + to_string(coordinator.endpoint()) +
                   ": rank 1 (alpha) at 127.0.0.1:");
  EXPECT_PRED2(contains, outcome, "does not fit: rank 1 is alpha's already");
  for (Child& member : members) EXPECT_EQ(member.result(), outcome);
}

// Three members of which the last gets a signal between joining and all_gather.
void expect_survivors_report(int signal, const std::string& text) {
  Coordinator coordinator(coordinator_options(3));
  std::vector<Child> members;
  for (int rank = 0; rank < 3; ++rank)
    members.emplace_back([&, rank] {
      RendezvousOptions own = member_of(coordinator, 3);
      own.rank = rank;
      own.host = fmt::format("host{}", rank);
      Rendezvous member(own);
      if (rank == 2) ::raise(signal);
      return std::to_string(member.all_gather("x", 500ms).size());
    });
  const std::string outcome = end_of(coordinator);
  EXPECT_PRED2(contains, outcome, text);
  EXPECT_EQ(members[0].result(), outcome);
  EXPECT_EQ(members[1].result(), outcome);
}

TEST(Rendezvous, AMemberThatIsKilledIsNamedToAllOthers) {
  expect_survivors_report(SIGKILL, "PeerLost: rendezvous: rank 2 (host2) was lost");
}

TEST(Rendezvous, AMemberThatIsStoppedEndsInATimeout) {
  expect_survivors_report(SIGSTOP, "Timeout: rendezvous: rank 2 (host2) did not do its part");
}

// The first is stopped while the job fails, and asks when nobody is there any more.
TEST(Rendezvous, AMemberHearsLaterWhyTheJobFailedWhileItAskedNothing) {
  Coordinator coordinator(coordinator_options(2));
  const auto start = [&](int rank, int signal) {
    return Child([&, rank, signal] {
      RendezvousOptions own = member_of(coordinator, 2);
      own.rank = rank;
      own.host = fmt::format("host{}", rank);
      Rendezvous member(own);
      ::raise(signal);
      return std::to_string(member.all_gather("x", 10s).size());
    });
  };
  Child stopped = start(0, SIGSTOP), killed = start(1, SIGKILL);
  const std::string outcome = end_of(coordinator);
  EXPECT_PRED2(contains, outcome, "PeerLost: rendezvous: rank 1 (host1) was lost");
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.result(), outcome);
}

TEST(Rendezvous, AMemberTooManyIsRefused) {
  Coordinator coordinator(coordinator_options(1));
  Child member([&] {
    Rendezvous first(member_of(coordinator, 1));
    RendezvousOptions own = member_of(coordinator, 1);
    return message_of<comm::Refused>([&] { Rendezvous second(own); });
  });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(member.result(), "rendezvous: " + to_string(coordinator.endpoint()) +
                                 ": the job's 1 members are all there");
}

TEST(Rendezvous, AllMembersGetOneMembershipAndRanksAmongTheirRole) {
  CoordinatorOptions options = coordinator_options(2);
  options.servers = 2;
  Coordinator coordinator(options);
  std::vector<Child> members;
  for (const Role role : {Role::server, Role::worker})
    for (int rank = 1; rank >= 0; --rank)
      members.emplace_back([&, role, rank] {
        Rendezvous member(member_of(coordinator, role, rank, 2, 2));
        std::string text = fmt::format("{} {}/{}", member.id(), member.rank(), member.size());
        for (const std::string& one : member.all_gather(std::to_string(member.id()), 5s))
          text += " " + one;
        return text + "; " + text_of(member.membership());
      });
  EXPECT_EQ(end_of(coordinator), "done");
  const std::string all = "; 1 0:worker0 1:worker1 2:server0 3:server1";
  EXPECT_EQ(members[0].result(), "3 1/2 2 3" + all);
  EXPECT_EQ(members[1].result(), "2 0/2 2 3" + all);
  EXPECT_EQ(members[2].result(), "1 1/2 0 1" + all);
  EXPECT_EQ(members[3].result(), "0 0/2 0 1" + all);
}

TEST(Rendezvous, AServerThatNeverComesIsNamed) {
  CoordinatorOptions options = coordinator_options(1, 500ms);
  options.servers = 2;
  Coordinator coordinator(options);
  Child member([&] { return report(member_of(coordinator, Role::worker, 0, 1, 2)); });
  const std::string outcome = end_of(coordinator);
  EXPECT_PRED2(contains, outcome, "1 of 3 members joined within 0.5 s; there: rank 0 (worker0); ");
  EXPECT_PRED2(contains, outcome, "missing: server 0, 1");
  EXPECT_EQ(member.result(), outcome);
}

}  // namespace
}  // namespace lockstep::cluster
