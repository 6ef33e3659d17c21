// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "lockstep/cluster/membership/detail/host_list.h"
#include "lockstep/cluster/membership/detail/rendezvous_file.h"
#include "lockstep/cluster/membership/job.h"
#include "lockstep/comm/interfaces.h"
#include "tests/cluster/child.h"
#include "tests/cluster/free_port.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using detail::expand_host_list;
using testing::Child;
using testing::contains, testing::free_port, testing::message_of;
using Variables = std::map<std::string, std::string>;

// What a process with these variables and no other launcher's says of its place.
std::string launched_place_with(const Variables& variables) {
  return Child([&] {
           for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
           const auto place = find_place();
           if (!place) return std::string("none");
           const std::string role = place->role == Role::server ? " server" : "";
           return fmt::format("{} {}/{}{}", static_cast<int>(place->launcher), place->rank,
                              place->workers, role);
         })
      .result();
}

Variables slurm_step(const std::string& rank, const std::string& folder) {
  return {{"SLURM_PROCID", rank},          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_STEP_ID", "0"},          {"SLURM_JOB_ID", "77"},
          {"SLURM_STEP_NODELIST", "one"},  {"SLURMD_NODENAME", "one"},
          {"LOCKSTEP_MEETING_DIR", folder}};
}

TEST(Place, OfTasksThatAreStartedAlikeTheLastAreServers) {
  for (const auto& [rank, place] :
       std::map<std::string, std::string>{{"0", "1 0/2"}, {"1", "1 1/2"}, {"2", "1 0/2 server"}})
    EXPECT_EQ(launched_place_with({{"OMPI_COMM_WORLD_RANK", rank},
                                   {"OMPI_COMM_WORLD_SIZE", "3"},
                                   {"LOCKSTEP_SERVERS", "1"}}),
              place);
  EXPECT_EQ(launched_place_with({{"OMPI_COMM_WORLD_RANK", "0"},
                                 {"OMPI_COMM_WORLD_SIZE", "3"},
                                 {"LOCKSTEP_SERVERS", "3"}}),
            "InvalidArgument: LOCKSTEP_SERVERS: is '3', expected a number from 0 to 2");
}

// A member that adds its rank + 1 to the others'.
Child member(const Variables& variables, std::chrono::milliseconds timeout = 20s) {
  return Child([=] {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    JobOptions options;
    options.timeout = timeout;
    Job job(find_place().value(), options);
    std::int64_t sum = job.rank() + 1;
    job.communicator().all_reduce(std::as_writable_bytes(std::span(&sum, 1)), comm::Element::int64,
                                  comm::Reduction::sum);
    return fmt::format("{}/{}: {}", job.rank(), job.size(), sum);
  });
}

std::string file_in(const testing::TemporaryFolder& folder) {
  return (std::filesystem::path(folder.path()) / "slurm-77.0.0").string();
}

TEST(HostList, IsExpandedAsSlurmDoes) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_host_list(""), Names{});
  EXPECT_EQ(expand_host_list("vm"), Names{"vm"});
  EXPECT_EQ(expand_host_list("gpu,n[08-10,12]"), (Names{"gpu", "n08", "n09", "n10", "n12"}));
  EXPECT_EQ(expand_host_list("r[1-2]n[3,4]-ib"),
            (Names{"r1n3-ib", "r1n4-ib", "r2n3-ib", "r2n4-ib"}));
}

TEST(HostList, ThatMakesNoSenseIsNamed) {
  EXPECT_EQ(message_of<InvalidArgument>([] { expand_host_list("n[1-"); }),
            "host list: 'n[1-', expected a closed pair of brackets");
  EXPECT_EQ(message_of<InvalidArgument>([] { expand_host_list("n[a]"); }),
            "host list: 'a' in 'n[a]', expected a number");
  EXPECT_EQ(message_of<InvalidArgument>([] { expand_host_list("n[5-3]"); }),
            "host list: '5-3' in 'n[5-3]', expected a range");
}

TEST(MeetingAddresses, OfAnInterfaceThatOnlyItsOwnLinkSeesAreRefused) {
  for (const comm::Interface& one : comm::list_interfaces())
    if (one.address.starts_with("fe80:")) {
      const auto meet = [&] { detail::reachable_addresses(one.address, ""); };
      EXPECT_TRUE(contains(message_of<NotFound>(meet), "has only an address of its own link"));
      return;
    }
  GTEST_SKIP() << "no interface has such an address";
}

TEST(Coordinator, IsFoundAtTheSecondAddressThoughTheFirstLeadsNowhere) {
  CoordinatorOptions options;
  options.secret = "hush";
  const detail::CoordinatorThread coordinator(options);
  const detail::Invitation invitation{{{"127.0.0.9", 1}, {"127.0.0.1", coordinator.port()}},
                                      options.secret};
  const auto begin = comm::Clock::now();
  EXPECT_EQ(detail::find_coordinator(invitation, 60s).port, coordinator.port());
  EXPECT_LT(comm::Clock::now() - begin, 20s);
}

TEST(SchedulerPlace, ComesFromTheVariablesOfMpirunSrunAndKubernetes) {
  EXPECT_EQ(launched_place_with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
            "1 1/4");
  EXPECT_EQ(launched_place_with({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}), "1 2/4");
  EXPECT_EQ(launched_place_with(slurm_step("1", "/x")), "2 1/2");
  EXPECT_EQ(launched_place_with({{"JOB_COMPLETION_INDEX", "1"},
                                 {"LOCKSTEP_WORKERS", "2"},
                                 {"LOCKSTEP_COORDINATOR", "a-0.a:29400"},
                                 {"LOCKSTEP_SECRET", "hush"}}),
            "3 1/2");
}

TEST(SchedulerPlace, IsNoneForOneProcessABatchScriptAndAnotherIndexedJob) {
  EXPECT_EQ(launched_place_with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}),
            "none");
  EXPECT_EQ(
      launched_place_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "1"}}),
      "none");
  EXPECT_EQ(launched_place_with({{"JOB_COMPLETION_INDEX", "1"}}), "none");
}

TEST(SchedulerPlace, OfMpirunInsideSlurmIsMpis) {
  Variables both = slurm_step("0", "/x");
  both["OMPI_COMM_WORLD_RANK"] = "3", both["OMPI_COMM_WORLD_SIZE"] = "4";
  EXPECT_EQ(launched_place_with(both), "1 3/4");
}

TEST(SchedulerPlace, ThatMakesNoSenseIsNamed) {
  EXPECT_EQ(launched_place_with({{"OMPI_COMM_WORLD_RANK", "1"}}),
            "InvalidArgument: OMPI_COMM_WORLD_SIZE: is not set in the environment, though "
            "OMPI_COMM_WORLD_RANK is");
  EXPECT_EQ(launched_place_with({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}),
            "InvalidArgument: PMI_RANK: is '4', expected a number from 0 to 3");
  EXPECT_EQ(launched_place_with({{"JOB_COMPLETION_INDEX", "1"}, {"LOCKSTEP_WORKERS", "2"}}),
            "InvalidArgument: LOCKSTEP_COORDINATOR: is not set in the environment, though "
            "JOB_COMPLETION_INDEX is");
}

TEST(SlurmMeeting, ConnectsTheTasksAndLeavesNoFile) {
  const testing::TemporaryFolder folder("meeting");
  Child second = member(slurm_step("1", folder.path()));
  Child first = member(slurm_step("0", folder.path()));
  EXPECT_EQ(first.result(), "0/2: 3");
  EXPECT_EQ(second.result(), "1/2: 3");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SlurmMeeting, IsNotMisledByAFileOfAnOlderAttempt) {
  const testing::TemporaryFolder folder("meeting");
  detail::RendezvousFile old(file_in(folder), {{{"127.0.0.1", 9}}, "old secret"});
  Child second = member(slurm_step("1", folder.path()));
  std::this_thread::sleep_for(300ms);  // it has read the old one by now
  Child first = member(slurm_step("0", folder.path()));
  EXPECT_EQ(second.result(), "1/2: 3");
  EXPECT_EQ(first.result(), "0/2: 3");
}

TEST(SlurmMeeting, FileIsReadableByItsOwnerAlone) {
  const testing::TemporaryFolder folder("meeting");
  const detail::RendezvousFile file(file_in(folder), {{{"127.0.0.1", 9}}, "hush"});
  struct stat facts {};
  ASSERT_EQ(::stat(file_in(folder).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(SlurmMeeting, ThatNobodyInvitesToNamesTheFile) {
  const testing::TemporaryFolder folder("meeting");
  const std::string result = member(slurm_step("1", folder.path()), 300ms).result();
  EXPECT_TRUE(result.starts_with("Timeout: " + file_in(folder) +
                                 ": rank 0 invites to no meeting there within 0.3 s"))
      << result;
}

TEST(SlurmMeeting, DoesNotBelieveAFileThatOthersMayRead) {
  const testing::TemporaryFolder folder("meeting");
  const detail::RendezvousFile file(file_in(folder), {{{"127.0.0.1", 9}}, "hush"});
  std::filesystem::permissions(file_in(folder), std::filesystem::perms(0644));
  const std::string result = member(slurm_step("1", folder.path()), 300ms).result();
  EXPECT_TRUE(contains(result, "with mode 0644, expected user")) << result;
}

TEST(SlurmMeeting, InAFolderThatCannotBeMadeIsAnError) {
  const std::string result = member(slurm_step("0", "/proc/nowhere")).result();
  EXPECT_TRUE(result.starts_with("IoError: /proc/nowhere: cannot be made")) << result;
}

TEST(SlurmMeeting, WithTransportMpiIsRefused) {
  Variables variables = slurm_step("0", "/x");
  variables["LOCKSTEP_TRANSPORT"] = "mpi";
  const std::string result = member(variables).result();
  EXPECT_TRUE(result.starts_with("InvalidArgument: transport: mpi connects")) << result;
}

Variables pod(int index, int port) {
  return {{"JOB_COMPLETION_INDEX", std::to_string(index)},
          {"LOCKSTEP_WORKERS", "3"},
          {"LOCKSTEP_COORDINATOR", "127.0.0.1:" + std::to_string(port)},
          {"LOCKSTEP_SECRET", "hush"}};
}

TEST(KubernetesMeeting, IsCoordinatedByTheFirstPodWheneverItComes) {
  const int port = free_port();
  std::vector<Child> pods;
  for (const int index : {2, 1, 0}) pods.push_back(member(pod(index, port)));
  EXPECT_EQ(pods[2].result(), "0/3: 6");
  EXPECT_EQ(pods[1].result(), "1/3: 6");
  EXPECT_EQ(pods[0].result(), "2/3: 6");
}

TEST(KubernetesMeeting, WithAnotherSecretIsRefused) {
  const int port = free_port();
  Variables wrong = pod(1, port);
  wrong["LOCKSTEP_SECRET"] = "shout";
  Child first = member(pod(0, port), 2s), second = member(wrong, 2s);
  const std::string result = second.result();
  EXPECT_TRUE(result.starts_with("Refused: ") && contains(result, "secret")) << result;
  EXPECT_TRUE(contains(first.result(), "1 of 3 members joined"));
}

}  // namespace
}  // namespace lockstep::cluster
