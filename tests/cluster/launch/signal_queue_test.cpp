// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/signal_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/cluster/child.h"
#include "tests/message.h"

namespace lockstep::cluster::detail {
namespace {

TEST(SignalQueue, ThatCannotBeMadeLeavesTheSignalsAsTheyWere) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "to look at an error the sanitizer needs a descriptor";
#endif
  lockstep::testing::Child child([] {
    const int spare = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(spare);
    const rlimit none{static_cast<rlim_t>(spare), static_cast<rlim_t>(spare)};
    setrlimit(RLIMIT_NOFILE, &none);
    const std::string said =
        lockstep::testing::message_of<IoError>([] { const SignalQueue queue; });
    sigset_t now;
    sigprocmask(SIG_SETMASK, nullptr, &now);
    return said + (sigismember(&now, SIGINT) == 1 ? "; blocked" : "; as before");
  });
  EXPECT_EQ(child.result(), "launch: signalfd: Too many open files; as before");
}

}  // namespace
}  // namespace lockstep::cluster::detail
