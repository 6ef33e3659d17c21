// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>

#include "lockstep/cluster/membership/job.h"
#include "lockstep/cluster/membership/scheduler.h"
#include "tests/cluster/child.h"
#include "tests/cluster/free_port.h"

namespace lockstep::cluster {
namespace {

using testing::Child, testing::free_port;
using Variables = std::map<std::string, std::string>;

// As MXNet's tools/launch.py sets them.
Variables variables_of(const std::string& role, int port = 9091) {
  return {{"DMLC_ROLE", role},
          {"DMLC_PS_ROOT_URI", "127.0.0.1"},
          {"DMLC_PS_ROOT_PORT", std::to_string(port)},
          {"DMLC_NUM_WORKER", "2"},
          {"DMLC_NUM_SERVER", "2"}};
}

Child process_with(const Variables& variables, const std::function<std::string()>& work) {
  return Child([&] {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    return work();
  });
}

std::string place_with(const Variables& variables) {
  return process_with(variables,
                      [] {
                        const Place place = find_place().value();
                        return fmt::format("{}{} {} {}+{} at {}",
                                           place.is_scheduler ? "scheduler " : "",
                                           to_string(place.role), place.rank, place.workers,
                                           place.servers, to_string(place.coordinator));
                      })
      .result();
}

std::string place_with(const std::string& name, const std::string& value) {
  Variables variables = variables_of("server");
  variables[name] = value;
  return place_with(variables);
}

// What a process of the job does: coordinate it, or meet those of its role.
std::string take_part() {
  const Place place = find_place().value();
  if (place.is_scheduler) {
    run_scheduler(place);
    return "the job is over";
  }
  Job job(place);
  std::int64_t sum = job.rank() + 1;
  job.communicator().all_reduce(std::as_writable_bytes(std::span(&sum, 1)), comm::Element::int64,
                                comm::Reduction::sum);
  return fmt::format("{} {} of {}: {}", to_string(job.role()), job.rank(), job.size(), sum);
}

TEST(DmlcPlace, ComesFromTheVariablesOfMxnetsLauncher) {
  EXPECT_EQ(place_with(variables_of("worker")), "worker -1 2+2 at 127.0.0.1:9091");
  EXPECT_EQ(place_with(variables_of("server")), "server -1 2+2 at 127.0.0.1:9091");
  EXPECT_EQ(place_with(variables_of("scheduler")), "scheduler worker -1 2+2 at 127.0.0.1:9091");
  EXPECT_EQ(place_with("OMPI_COMM_WORLD_RANK", "1"), "server -1 2+2 at 127.0.0.1:9091");
}

TEST(DmlcPlace, OfAProcessThatLockstepLaunchedIsLocksteps) {
  Variables variables = variables_of("server");
  variables.merge(Variables{{"LOCKSTEP_RANK", "1"},
                            {"LOCKSTEP_WORKERS", "3"},
                            {"LOCKSTEP_COORDINATOR", "[::1]:77"},
                            {"LOCKSTEP_SECRET", "hush"}});
  EXPECT_EQ(place_with(variables), "worker 1 3+0 at [::1]:77");
}

TEST(DmlcPlace, ThatMakesNoSenseIsNamed) {
  EXPECT_EQ(place_with("DMLC_ROLE", "boss"),
            "InvalidArgument: DMLC_ROLE: is 'boss', expected worker, server or scheduler");
  EXPECT_EQ(
      place_with("DMLC_PS_ROOT_URI", ""),
      "InvalidArgument: DMLC_PS_ROOT_URI: is not set in the environment, though DMLC_ROLE is");
  EXPECT_EQ(place_with("DMLC_PS_ROOT_PORT", "99999"),
            "InvalidArgument: DMLC_PS_ROOT_PORT: is '99999', expected a number from 1 to 65535");
  EXPECT_EQ(place_with("DMLC_NUM_WORKER", "0"),
            "InvalidArgument: DMLC_NUM_WORKER: is '0', expected a number from 1 to 1048576");
  EXPECT_EQ(place_with("DMLC_NUM_SERVER", "0"),
            "InvalidArgument: DMLC_NUM_SERVER: is 0, though DMLC_ROLE is server");
}

TEST(DmlcPlace, ThatOtherMachinesReachNeedsASecret) {
  EXPECT_EQ(place_with("DMLC_PS_ROOT_URI", "10.0.0.7"),
            "InvalidArgument: DMLC_PS_ROOT_URI: is '10.0.0.7', which other machines may reach, and "
            "the job has no secret: set LOCKSTEP_SECRET to the same random text for all its "
            "processes (openssl rand -hex 32)");
  Variables variables = variables_of("worker");
  variables["DMLC_PS_ROOT_URI"] = "10.0.0.7", variables["LOCKSTEP_SECRET"] = "hush";
  EXPECT_EQ(place_with(variables), "worker -1 2+2 at 10.0.0.7:9091");
}

TEST(DmlcJob, MeetsAtItsSchedulerWhichEndsWithIt) {
  const int port = free_port();
  std::map<std::string, std::vector<Child>> processes;
  for (const char* role : {"worker", "server", "scheduler", "server", "worker"})
    processes[role].push_back(process_with(variables_of(role, port), take_part));
  for (const std::string role : {"worker", "server"}) {
    std::set<std::string> said;
    for (Child& one : processes[role]) said.insert(one.result());
    EXPECT_EQ(said, (std::set<std::string>{role + " 0 of 2: 3", role + " 1 of 2: 3"}));
  }
  EXPECT_EQ(processes["scheduler"][0].result(), "the job is over");
}

TEST(DmlcJob, HasItsSchedulerForNoMember) {
  const auto be_member = [] {
    Job job(find_place().value());
    return std::string("a member");
  };
  EXPECT_EQ(process_with(variables_of("scheduler"), be_member).result(),
            "InvalidArgument: job: this process is to be its scheduler (DMLC_ROLE), which is no "
            "member; expected cluster::run_scheduler, or train::join_job for all roles");
}

TEST(DmlcJob, WithAnotherSecretIsRefused) {
  const int port = free_port();
  Variables scheduler = variables_of("scheduler", port), wrong = variables_of("worker", port);
  scheduler["LOCKSTEP_TIMEOUT"] = wrong["LOCKSTEP_TIMEOUT"] = "2";
  wrong["LOCKSTEP_SECRET"] = "another";
  Child coordinating = process_with(scheduler, take_part);
  const std::string said = process_with(wrong, take_part).result();
  EXPECT_TRUE(said.starts_with("Refused: ") && said.find("secret") != std::string::npos) << said;
  const std::string end = coordinating.result();
  EXPECT_NE(end.find("0 of 4 members joined"), std::string::npos) << end;
}

}  // namespace
}  // namespace lockstep::cluster
