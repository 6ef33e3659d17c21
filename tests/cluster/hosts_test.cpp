// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/hosts.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::cluster {
namespace {

using testing::message_of;

std::string text_of(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) text += fmt::format("{}={} ", host.name, host.slots);
  return text;
}

TEST(Hosts, AListHasNamesAddressesUsersAndSlots) {
  EXPECT_EQ(text_of(parse_hosts("a:2,b,user@c.org:3,[fe80::1]:4,[::1],10.0.0.1")),
            "a=2 b=1 user@c.org=3 fe80::1=4 ::1=1 10.0.0.1=1 ");
}

TEST(Hosts, AListThatCannotBeMeantIsRefused) {
  const auto complaint = [](const char* list) { return message_of([&] { parse_hosts(list); }); };
  EXPECT_EQ(complaint(""), "hosts: '': '' is no host's name");
  EXPECT_EQ(complaint("a,,b"), "hosts: 'a,,b': '' is no host's name");
  EXPECT_EQ(complaint("a:x"), "hosts: 'a:x': got 'x' workers, expected a number from 1 to 4096");
  EXPECT_EQ(complaint("a:2:3"),
            "hosts: 'a:2:3': got '2:3' workers, expected a number from 1 to 4096");
  EXPECT_EQ(complaint("[::1"), "hosts: '[::1': a bracket is not closed");
  EXPECT_EQ(complaint("-v"), "hosts: '-v': '-v' is no host's name");
  EXPECT_EQ(complaint("a b"), "hosts: 'a b': 'a b' is no host's name");
}

TEST(Hosts, AFileHasCommentsAndEmptyLines) {
  const testing::TemporaryFolder folder("hosts");
  const std::string path = folder.path() + "/hosts";
  write_file(path, "# all\n\na slots=2 # two\nb\n");
  EXPECT_EQ(text_of(read_hosts(path)), "a=2 b=1 ");
  write_file(path, "# none\n");
  EXPECT_EQ(message_of([&] { read_hosts(path); }), path + ": names no host");
}

TEST(Hosts, WorkersFillTheHostsInOrder) {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 2}, {"c", 1}};
  EXPECT_EQ(text_of(take_slots(hosts, 3)), "a=2 b=1 ");
  EXPECT_EQ(text_of(take_slots(hosts, 5)), "a=2 b=2 c=1 ");
  EXPECT_EQ(message_of([&] { take_slots(hosts, 6); }), "hosts: 6 workers, the hosts take 5");
}

}  // namespace
}  // namespace lockstep::cluster
