// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/job.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "lockstep/cluster/membership/coordinator.h"
#include "tests/cluster/child.h"
#include "tests/message.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::message_of;

// Variables of a process, for the life of this object.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

std::map<std::string, std::string> good() {
  return {{"LOCKSTEP_RANK", "1"},
          {"LOCKSTEP_WORKERS", "3"},
          {"LOCKSTEP_COORDINATOR", "[::1]:77"},
          {"LOCKSTEP_SECRET", "hush"}};
}

std::string complaint_with(const std::string& name, const std::string& value) {
  auto values = good();
  values[name] = value;
  const Environment environment(values);
  return message_of<InvalidArgument>([] { find_place(); });
}

TEST(Place, IsNoneWhereNobodyLaunchedTheProcess) { EXPECT_FALSE(find_place()); }

TEST(Place, ComesFromTheEnvironmentOfALaunchedProcess) {
  const Environment environment(good());
  const std::optional<Place> place = find_place();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->workers, 3);
  EXPECT_EQ(to_string(place->coordinator), "[::1]:77");
  EXPECT_EQ(place->secret, "hush");
}

TEST(Place, HasTheTimeoutOfWhoeverLaunchedIt) {
  auto values = good();
  values["LOCKSTEP_TIMEOUT"] = "7";
  const Environment environment(values);
  EXPECT_EQ(find_place()->timeout, std::chrono::seconds(7));
}

TEST(Job, WaitsAsLongAsItsPlaceSays) {
  Place place;
  place.workers = 2;
  place.coordinator = {"127.0.0.1", 1};  // nobody listens there
  place.secret = "hush";
  place.timeout = std::chrono::seconds(1);
  const auto message = message_of<comm::Timeout>([&] { Job job(place); });
  EXPECT_NE(message.find("127.0.0.1:1"), std::string::npos) << message;
}

TEST(Place, NamesTheVariableThatMakesNoSense) {
  EXPECT_EQ(complaint_with("LOCKSTEP_RANK", "3"),
            "LOCKSTEP_RANK: is '3', expected a number from 0 to 2");
  EXPECT_EQ(complaint_with("LOCKSTEP_WORKERS", "many"),
            "LOCKSTEP_WORKERS: is 'many', expected a number from 1 to 1048576");
  EXPECT_EQ(complaint_with("LOCKSTEP_COORDINATOR", "here"),
            "LOCKSTEP_COORDINATOR: address 'here': expected host:port or [address]:port");
  EXPECT_EQ(complaint_with("LOCKSTEP_SECRET", ""),
            "LOCKSTEP_SECRET: is not set in the environment, though LOCKSTEP_RANK is");
}

TEST(Place, HasARoleAndARankAmongThoseOfIt) {
  auto values = good();
  values["LOCKSTEP_ROLE"] = "server";
  values["LOCKSTEP_SERVERS"] = "2";
  const Environment environment(values);
  const Place place = find_place().value();
  EXPECT_EQ(place.role, Role::server);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.id(), 4);
  EXPECT_EQ(place.members(), 5);
  EXPECT_EQ(complaint_with("LOCKSTEP_RANK", "2"),
            "LOCKSTEP_RANK: is '2', expected a number from 0 to 1");
}

TEST(Place, NamesARoleThatDoesNotExistOrHasNoMembers) {
  EXPECT_EQ(complaint_with("LOCKSTEP_ROLE", "boss"),
            "LOCKSTEP_ROLE: is 'boss', expected worker or server");
  EXPECT_EQ(complaint_with("LOCKSTEP_ROLE", "server"),
            "LOCKSTEP_SERVERS: is 0, though LOCKSTEP_ROLE is server");
}

Place place_of(const Coordinator& coordinator, int rank, int size) {
  Place place;
  place.rank = rank;
  place.workers = size;
  place.coordinator = coordinator.endpoint();
  place.secret = "hush";
  return place;
}

// What each of two members of a job has to say, the second with options of its own.
std::vector<std::string> results_of_two(const JobOptions& first, const JobOptions& second) {
  CoordinatorOptions options;
  options.secret = "hush";
  options.workers = 2;
  Coordinator coordinator(options);
  std::vector<Child> members;
  for (int rank = 0; rank < 2; ++rank)
    members.emplace_back([&, rank] {
      Job job(place_of(coordinator, rank, 2), rank == 0 ? first : second);
      job.communicator().barrier();
      return fmt::format("{} of {}", job.rank(), job.size());
    });
  std::jthread server([&](const std::stop_token& stop) {
    try {
      coordinator.run(stop);
    } catch (const Error&) {
    }
  });
  std::vector<std::string> results;
  for (Child& member : members) results.push_back(member.result());
  return results;
}

TEST(Job, ConnectsItsMembersByEveryTransport) {
  for (const char* transport : {"", "auto", "shm", "tcp", "zmq"}) {
    JobOptions options;
    options.transport = transport;
    EXPECT_EQ(results_of_two(options, options), (std::vector<std::string>{"0 of 2", "1 of 2"}))
        << transport;
  }
}

TEST(Job, ConnectsWorkersWithWorkersAndServersWithServers) {
  CoordinatorOptions options;
  options.secret = "hush";
  options.workers = 2;
  options.servers = 1;
  Coordinator coordinator(options);
  std::vector<Child> members;
  for (int id = 0; id < 3; ++id)
    members.emplace_back([&, id] {
      Place place = place_of(coordinator, id < 2 ? id : 0, 2);
      place.role = id < 2 ? Role::worker : Role::server;
      place.servers = 1;
      Job job(place);
      job.communicator().barrier();
      return fmt::format("{} {} of {}, id {} of {}", to_string(job.role()), job.rank(),
                         job.communicator().size(), job.id(), job.membership().members.size());
    });
  coordinator.run();
  EXPECT_EQ(members[0].result(), "worker 0 of 2, id 0 of 3");
  EXPECT_EQ(members[1].result(), "worker 1 of 2, id 1 of 3");
  EXPECT_EQ(members[2].result(), "server 0 of 1, id 2 of 3");
}

TEST(Job, RefusesMembersOfAnotherConfigurationAndSaysWhatDiffers) {
  JobOptions first, second;
  first.configuration = "batch: 8\nseed: 1\nshards: 4\n";
  second.configuration = "batch: 8\nseed: 2\nshards: 4\n";
  for (const std::string& result : results_of_two(first, second)) {
    EXPECT_EQ(result.substr(0, 8), "Refused:") << result;
    EXPECT_NE(result.find("seed: 1"), std::string::npos) << result;
    EXPECT_NE(result.find("seed: 2"), std::string::npos) << result;
    EXPECT_EQ(result.find("shards"), std::string::npos) << result;
  }
}

TEST(Job, RefusesATransportThatDoesNotExist) {
  Place place;
  JobOptions options;
  options.transport = "pigeon";
  EXPECT_EQ(message_of<InvalidArgument>([&] { Job(place, options); }),
            "transport: 'pigeon', expected one of auto, shm, tcp, ucx, zmq");
}

}  // namespace
}  // namespace lockstep::cluster
