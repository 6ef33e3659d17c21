// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/hosts.h"

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

TEST(Hosts, AListMayHaveBlanksAndBareAddresses) {
  EXPECT_EQ(text_of(parse_hosts(" a:2, b ,fe80::1, fe80::2%eth0")),
            "a=2 b=1 fe80::1=1 fe80::2%eth0=1 ");
  EXPECT_EQ(message_of([] { parse_hosts("[::1]x:2"); }),
            "hosts: '[::1]x:2': expected [address] or [address]:N");
  EXPECT_EQ(message_of([] { parse_hosts("a,b:3,a"); }),
            "hosts: a is named twice; give it more workers instead: a:2");
}

std::string hosts_in(const std::string& content) {
  const testing::TemporaryFolder folder("hosts");
  const std::string path = folder.path() + "/hosts";
  write_file(path, content);
  try {
    return text_of(read_hosts(path));
  } catch (const Error& error) {
    return std::string(error.what()).substr(folder.path().size() + 1);
  }
}

TEST(Hosts, AFileHasTheFormsOfOpenMpiAndMpich) {
  EXPECT_EQ(hosts_in("n1:2\nn2\nuser@n3:3 # three\n"), "n1=2 n2=1 user@n3=3 ");
  EXPECT_EQ(hosts_in("n1 slots=2 max_slots=4\nn2 slots = 3 max-slots= 3\n"), "n1=2 n2=3 ");
  EXPECT_EQ(hosts_in("[fe80::1]:4\nfe80::2 slots=2\nfe80::3\n10.0.0.1:2\n"),
            "fe80::1=4 fe80::2=2 fe80::3=1 10.0.0.1=2 ");
  EXPECT_EQ(hosts_in("\xEF\xBB\xBFn1:2  \r\n\r\n\t n2\tslots=2\t\r\n  # end"), "n1=2 n2=2 ");
}

TEST(Hosts, AFileThatCannotBeMeantIsRefusedWithTheLine) {
  EXPECT_EQ(hosts_in("n1\nn2:x\n"),
            "hosts:2: hosts: 'n2:x': got 'x' workers, expected a number from 1 to 4096");
  EXPECT_EQ(hosts_in("n1:0\n"),
            "hosts:1: hosts: 'n1:0': got '0' workers, expected a number from 1 to 4096");
  EXPECT_EQ(hosts_in("n1:2 slots=3\n"),
            "hosts:1: hosts: 'n1:2 slots=3': says twice how many workers");
  EXPECT_EQ(hosts_in("n1 2\n"), "hosts:1: hosts: 'n1 2': got '2', expected host [slots=N]");
  EXPECT_EQ(hosts_in("n1 cores=2\n"),
            "hosts:1: hosts: 'n1 cores=2': got 'cores=2', expected host [slots=N]");
  EXPECT_EQ(hosts_in("slots=2\n"), "hosts:1: hosts: 'slots=2': 'slots=2' is no host's name");
  EXPECT_EQ(hosts_in("a@n1 user=b\n"),
            "hosts:1: hosts: 'a@n1 user=b': says twice, or not, which user");
  EXPECT_EQ(hosts_in("n1:4000\nn1:97\n"),
            "hosts:2: hosts: 'n1:97': n1 has 4097 workers by now, expected at most 4096");
}

TEST(Hosts, AFileOfOpenMpiMayNameAHostForEachOfItsWorkers) {
  EXPECT_EQ(hosts_in("n1\nn2\nn1\nn1:2\n"), "n1=4 n2=1 ");
  EXPECT_EQ(hosts_in("n1 cpus=4 user=ml\nn2 count=2 max-slots=8\n"), "ml@n1=4 n2=2 ");
}

TEST(Hosts, AFileHasTheFormOfHorovod) {
  EXPECT_EQ(hosts_in("# workers\nnode-1 slots=4\nnode-2 slots=4\n"), "node-1=4 node-2=4 ");
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
