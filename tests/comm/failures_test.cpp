// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <random>
#include <thread>

#include "lockstep/comm/transports/in_process.h"
#include "tests/comm/worlds.h"
#include "tests/event.h"
#include "tests/seed.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::Event;
using lockstep::testing::SetAtEnd;

// What a rank saw at the end.
struct Report {
  char kind[16] = "none";
  int rank = -1;
  int reporter = -1;
  char operation[32] = {};
  char text[256] = {};
  long waited_ms = 0;  // in the call that failed

  bool names(int other) const {
    const std::string found = fmt::format("rank {} ", other);
    return rank == other || std::string(text).find(found) != std::string::npos;
  }
};

Report report_of(int reporter, const CommError& error, Clock::time_point begin) {
  Report report;
  snprintf(report.kind, sizeof report.kind, "%s", error.kind());
  snprintf(report.operation, sizeof report.operation, "%s", error.operation().c_str());
  snprintf(report.text, sizeof report.text, "%s", error.what());
  report.rank = error.rank();
  report.reporter = reporter;
  report.waited_ms = static_cast<long>((Clock::now() - begin) / 1ms);
  return report;
}

// Runs the body on every rank and tells what each one threw.
std::vector<Report> reports_of(const WorldKind& kind, int size,
                               const std::function<void(Communicator&)>& body) {
  std::vector<Report> reports(static_cast<std::size_t>(size));
  run_ranks(kind, size, [&](Communicator& comm) {
    const auto begin = Clock::now();
    try {
      body(comm);
    } catch (const CommError& error) {
      reports[static_cast<std::size_t>(comm.rank())] = report_of(comm.rank(), error, begin);
    }
  });
  return reports;
}

class Failures : public ::testing::TestWithParam<WorldKind> {};

TEST_P(Failures, AbortFromAnotherThreadEndsTheCallOnEveryRank) {
  const Event calls[3], aborted;
  const auto reports = reports_of(GetParam(), 3, [&](Communicator& comm) {
    std::jthread other;
    if (comm.rank() == 0)
      other = std::jthread([&] {
        calls[0].await();
        calls[2].await();
        comm.abort("interrupted");
        aborted.set();
      });
    // Nobody ever sends: without the abort this would take a minute. Rank 1 comes after it.
    std::byte byte{};
    calls[comm.rank()].set();
    if (comm.rank() == 1) aborted.await();
    comm.receive({&byte, 1}, comm.rank() == 1 ? 2 : 1);
  });
  for (const Report& report : reports) {
    EXPECT_STREQ(report.kind, "Aborted") << report.text;
    EXPECT_NE(std::string(report.text).find("aborted by rank 0: interrupted"), std::string::npos)
        << report.text;
  }
}

TEST_P(Failures, ALatePeerBecomesATimeoutThatNamesItAndBreaksTheCommunicator) {
  const Event over;
  const auto reports = reports_of(GetParam(), 2, [&](Communicator& comm) {
    if (comm.rank() == 1) return over.await();
    const SetAtEnd end(over);
    try {
      comm.barrier({.timeout = 200ms});
    } catch (const Timeout& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_EQ(error.operation(), "barrier");
    }
    std::byte byte{};
    comm.broadcast({&byte, 1}, 1);
  });
  EXPECT_STREQ(reports[0].kind, "Timeout");
  EXPECT_EQ(reports[0].rank, 1);
  EXPECT_LT(reports[0].waited_ms, 10'000);  // of the minute that the second call has
}

TEST_P(Failures, CallsThatDoNotMatchAreSaidToBeSo) {
  if (!GetParam().forks) GTEST_SKIP() << "each rank knows only whom it waits for itself";
  const auto reports = reports_of(GetParam(), 2, [](Communicator& comm) {
    std::byte byte{};
    comm.receive({&byte, 1}, 1 - comm.rank(), {.timeout = 600ms});
  });
  for (const Report& report : reports) {
    EXPECT_NE(report.rank, report.reporter) << report.text;
    EXPECT_NE(std::string(report.text).find("calls do not match"), std::string::npos)
        << report.kind << " " << report.text;
  }
}

TEST_P(Failures, AStartedCallCanTimeOutToo) {
  const Event over;
  const auto reports = reports_of(GetParam(), 2, [&](Communicator& comm) {
    if (comm.rank() == 1) return over.await();
    const SetAtEnd end(over);
    const WorkPtr work = comm.start([](Communicator& c) { c.barrier({.timeout = 100ms}); });
    work->wait();
  });
  EXPECT_STREQ(reports[0].kind, "Timeout");
  EXPECT_EQ(reports[0].rank, 1);
}

TEST_P(Failures, ARankThatLeavesIsLostToThoseWhoWaitForIt) {
  const auto reports = reports_of(GetParam(), 3, [](Communicator& comm) {
    if (comm.rank() == 2) return;
    std::vector<float> data(100'000);
    comm.all_reduce(std::as_writable_bytes(std::span(data)), Element::float32, Reduction::sum);
  });
  for (const int rank : {0, 1}) {
    const Report& report = reports[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(report.names(2)) << report.kind << " " << report.text;
    EXPECT_STREQ(report.operation, "all_reduce");
  }
}

// A thread whose system calls are interrupted again and again by a handler of the user's own.
class Interrupted {
 public:
  Interrupted() : thread_(pthread_self()) {
    struct sigaction handled {};
    handled.sa_handler = [](int) {};
    sigaction(SIGUSR1, &handled, &before_);
    other_ = std::jthread([this](const std::stop_token& stop) {
      for (; !stop.stop_requested(); std::this_thread::sleep_for(1ms))
        pthread_kill(thread_, SIGUSR1);
    });
  }
  ~Interrupted() {
    other_.request_stop();
    other_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }
  Interrupted(const Interrupted&) = delete;
  Interrupted& operator=(const Interrupted&) = delete;

 private:
  pthread_t thread_;
  struct sigaction before_ = {};
  std::jthread other_;
};

// From the connecting on; each call waits for the other rank, which is late.
TEST_P(Failures, ASignalThatIsHandledInterruptsNoCall) {
  const std::unique_ptr<World> world = GetParam().make(2);
  auto late = std::async(std::launch::async, [&] {
    Communicator comm(world->connect(1));
    for (std::uint8_t i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(20ms);
      const std::byte sent{i};
      comm.send({&sent, 1}, 0);
    }
  });
  const Interrupted interrupted;
  Communicator comm(world->connect(0));
  for (std::uint8_t i = 0; i < 10; ++i) {
    std::byte got{255};
    comm.receive({&got, 1}, 1);
    EXPECT_EQ(got, std::byte{i});
  }
  late.get();
}

// One whose exchanges end by an error that is not between ranks.
class FailingTransport final : public Transport {
 public:
  explicit FailingTransport(std::unique_ptr<Transport> own) : own_(std::move(own)) {}

  std::string_view name() const override { return own_->name(); }
  int rank() const override { return own_->rank(); }
  int size() const override { return own_->size(); }
  const std::string& host(int rank) const override { return own_->host(rank); }
  void exchange(std::span<Transfer>, Deadline, std::string_view) override {
    throw IoError("too many open files");
  }
  void abort(const std::string& reason) override { own_->abort(reason); }
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override {
    return own_->subgroup(ranks, deadline);
  }

 private:
  std::unique_ptr<Transport> own_;
};

TEST(Communicator, AnyErrorInACallBreaksItAndIsTold) {
  InProcessGroup group({"a", "b"});
  Communicator failing(std::make_unique<FailingTransport>(group.connect(0)));
  Communicator other(group.connect(1));
  std::byte byte{};
  EXPECT_THROW(failing.broadcast({&byte, 1}, 0), IoError);
  EXPECT_THROW(failing.send({}, 1), IoError);  // it is broken, with nothing to exchange too
  try {
    other.broadcast({&byte, 1}, 0);
    FAIL() << "a broadcast that never was";
  } catch (const Aborted& error) {
    EXPECT_STREQ(error.what(), "broadcast: aborted by rank 0: too many open files");
  }
}

TEST(InProcess, AKilledRankIsLost) {
  InProcessGroup group({"a", "b"});
  Communicator comm(group.connect(0));
  const auto other = group.connect(1);
  group.kill(1);
  try {
    comm.barrier();
    FAIL() << "a barrier with the dead";
  } catch (const PeerLost& error) {
    EXPECT_STREQ(error.what(), "barrier: rank 1 on b is gone");
    EXPECT_EQ(error.host(), "b");
  }
}

// Ranks as processes, each with a pipe to tell what it saw.
class Ranks {
 public:
  using Body = std::function<void(Communicator&)>;

  Ranks(const WorldKind& kind, int size, const Body& body) : world_(kind.make(size)) {
    for (int rank = 0; rank < size; ++rank) spawn(rank, body);
  }
  ~Ranks() {
    for (const pid_t pid : pids_)
      if (pid > 0) kill(pid, SIGKILL);
    for (std::size_t i = 0; i < pids_.size(); ++i) reap(static_cast<int>(i));
    for (const int pipe : pipes_) close(pipe);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void signal(int rank, int number) { kill(pids_[static_cast<std::size_t>(rank)], number); }

  // Nothing when it does not come in time.
  std::optional<Report> report(int rank, std::chrono::milliseconds patience) {
    pollfd readable{pipes_[static_cast<std::size_t>(rank)], POLLIN, 0};
    Report report;
    if (poll(&readable, 1, static_cast<int>(patience.count())) != 1) return {};
    if (read(readable.fd, &report, sizeof report) != sizeof report) return {};
    return report;
  }

  void reap(int rank) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    if (pid > 0) waitpid(pid, nullptr, 0);
    pid = 0;
  }

 private:
  void spawn(int rank, const Body& body) {
    int ends[2];
    if (pipe(ends) != 0) throw IoError("pipe: failed");
    const pid_t pid = fork();
    if (pid == 0) {
      const Report report = live(rank, body, ends[1]);
      const bool told = write(ends[1], &report, sizeof report) == sizeof report;
      _exit(told ? 0 : 1);
    }
    close(ends[1]);
    pids_.push_back(pid);
    pipes_.push_back(ends[0]);
  }

  Report live(int rank, const Body& body, int pipe) {
    auto begin = Clock::now();
    try {
      Communicator comm(world_->connect(rank));
      body(comm);
      const Report ready;
      if (write(pipe, &ready, sizeof ready) != sizeof ready) return {};
      while (true) {
        begin = Clock::now();
        body(comm);
      }
    } catch (const CommError& error) {
      return report_of(rank, error, begin);
    } catch (const std::exception& error) {
      Report report;
      snprintf(report.text, sizeof report.text, "%s", error.what());
      return report;
    }
  }

  std::unique_ptr<World> world_;
  std::vector<pid_t> pids_;
  std::vector<int> pipes_;
};

// Something of everything, a hundred times a second or more.
void use(Communicator& comm) {
  static std::vector<float> data(150'000), all(150'000 * 8);
  const CallOptions options{.timeout = 1500ms};
  const auto bytes = std::as_writable_bytes(std::span(data));
  comm.all_reduce(bytes, Element::float32, Reduction::maximum, options);
  comm.broadcast(bytes, comm.size() - 1, options);
  comm.all_reduce(bytes, Element::float32, Reduction::maximum,
                  {.timeout = 1500ms, .algorithm = Algorithm::ring});
  const auto ranks = static_cast<std::size_t>(comm.size());
  comm.all_gather(bytes, std::as_writable_bytes(std::span(all)).first(bytes.size() * ranks),
                  options);
  comm.barrier(options);
}

// A random rank meets the signal at a random time; every other one must say so.
void strike(const WorldKind& kind, int signal, std::chrono::milliseconds patience) {
  std::mt19937 random(static_cast<std::uint32_t>(lockstep::testing::seed_of_this_run()));
  for (const int size : {2, 4}) {
    Ranks ranks(kind, size, use);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    for (int rank = 0; rank < size; ++rank) ASSERT_TRUE(ranks.report(rank, 30s));  // it is ready
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 200));
    ranks.signal(victim, signal);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      const auto report = ranks.report(rank, patience);
      ASSERT_TRUE(report) << "rank " << rank << " of " << size << " says nothing";
      EXPECT_TRUE(report->names(victim))
          << "rank " << rank << " of " << size << ", victim " << victim << ": " << report->text;
      EXPECT_STRNE(report->operation, "");
    }
  }
}

TEST_P(Failures, EverySurvivorNamesARankThatWasKilled) {
  if (!GetParam().forks) GTEST_SKIP() << "lives in one process";
  strike(GetParam(), SIGKILL, 10s);
}

TEST_P(Failures, EveryRankNamesOneThatWasStopped) {
  if (!GetParam().forks) GTEST_SKIP() << "lives in one process";
  strike(GetParam(), SIGSTOP, 10s);
}

INSTANTIATE_TEST_SUITE_P(Transports, Failures, ::testing::ValuesIn(world_kinds_that_fail()),
                         name_of);

}  // namespace
}  // namespace lockstep::comm
