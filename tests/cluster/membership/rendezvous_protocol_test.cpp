// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/host_name.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/messages/message_client.h"
#include "tests/cluster/child.h"
#include "tests/cluster/membership/end_of.h"
#include "tests/cluster/membership/rendezvous_parts.h"
#include "tests/message.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::contains;
using testing::coordinator_options;
using testing::end_of;
using testing::member_of;
using testing::report;

// Says hello by this version of the protocol and asks something, and hears what the coordinator
// says to that.
std::string greet(const Coordinator& coordinator, int protocol, const std::string& question) {
  comm::MessageClientOptions options;
  options.server = coordinator.endpoint();
  options.secret = "open sesame";
  options.encrypted = true;
  options.reconnects = false;
  comm::MessageClient client(options);
  const auto request = [&](const std::string& bytes) {
    return client.request(comm::Payload(bytes), {.timeout = 10s});
  };
  const auto text_of = [](comm::PendingReply& reply) {
    const detail::Message message = detail::decode(reply.wait().payload.text());
    const auto* failure = std::get_if<detail::Failure>(&message);
    return failure == nullptr ? "heard" : failure->text;
  };
  comm::PendingReply hello = request(detail::encode(detail::Hello{protocol, "beta"}));
  comm::PendingReply query = request(question);
  const std::string answer = text_of(query);
  return text_of(hello) == answer ? answer : "two answers";
}

const std::string kQuery = detail::encode(detail::MembershipQuery{});

// What it asks to join by may have another form.
TEST(Rendezvous, AnotherVersionOfTheProtocolIsRefusedNamingBothAndTheirHosts) {
  Coordinator coordinator(coordinator_options(2));
  Child other([&] { return greet(coordinator, detail::kProtocol + 41, "J of the future"); });
  const std::string outcome = end_of(coordinator);
  EXPECT_EQ(outcome, "Refused: " + other.result());
  EXPECT_PRED2(contains, outcome,
               fmt::format("beta speaks version {} of the protocol, the coordinator at {} on {} "
                           "version {}",
                           detail::kProtocol + 41, to_string(coordinator.endpoint()),
                           own_host_name(), detail::kProtocol));
}

TEST(Rendezvous, AnotherVersionOfTheProtocolDoesNotEndAJobThatRuns) {
  Coordinator coordinator(coordinator_options(1));
  Child member([&] {
    Rendezvous own(member_of(coordinator, 1));
    const std::string said = greet(coordinator, detail::kProtocol + 1, kQuery);
    return said.substr(0, 24) + "; " + std::to_string(own.all_gather("x", 5s).size());
  });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(member.result(), "rendezvous: beta speaks ; 1");
}

TEST(Rendezvous, WhoAsksByAnotherVersionDoesNotEndAJobThatHasNotBegun) {
  Coordinator coordinator(coordinator_options(1));
  Child member([&] {
    const std::string said = greet(coordinator, detail::kProtocol + 1, kQuery);
    return said.substr(0, 24) + "; " + report(member_of(coordinator, 1)).substr(0, 3);
  });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(member.result(), "rendezvous: beta speaks ; 0/1");
}

TEST(Rendezvous, GarbageOfOneWhoIsNoMemberDoesNotEndAJob) {
  Coordinator coordinator(coordinator_options(1));
  Child member([&] {
    Rendezvous own(member_of(coordinator, 1));
    const std::string said = greet(coordinator, detail::kProtocol, "?!");
    return fmt::format("{}; {}", contains(said, "rendezvous: "), own.all_gather("x", 5s).size());
  });
  EXPECT_EQ(end_of(coordinator), "done");
  EXPECT_EQ(member.result(), "true; 1");
}

TEST(Rendezvous, MoreThanAMessageCanHoldIsSaidToThoseWhoGather) {
  Coordinator coordinator(coordinator_options(2));
  const auto give = [&] {
    return Child([&] {
      Rendezvous own(member_of(coordinator, 2));
      own.all_gather(std::string(33 << 20, 'x'), 20s);
      return std::string("gathered");
    });
  };
  Child first = give(), second = give();
  const std::string outcome = end_of(coordinator);
  EXPECT_PRED2(contains, outcome, "Refused: rendezvous at " + to_string(coordinator.endpoint()));
  EXPECT_PRED2(contains, outcome, "the workers gave 692");
  EXPECT_EQ(first.result(), outcome);
  EXPECT_EQ(second.result(), outcome);
}

}  // namespace
}  // namespace lockstep::cluster
