// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/machine_limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// What a kernel would say, in a folder of its own.
class Kernel {
 public:
  void write(const std::string& path, const std::string& text) const {
    const std::string whole = folder_.path() + path;
    fs::create_directories(fs::path(whole).parent_path());
    std::ofstream(whole) << text;
  }
  void process(const std::string& cgroup, const std::string& mounts) const {
    write("/proc/cgroup", cgroup);
    write("/proc/mountinfo", mounts);
  }
  KernelFiles files() const { return {folder_.path() + "/proc", folder_.path()}; }

 private:
  testing::TemporaryFolder folder_{"kernel"};
};

constexpr const char* kMountsV2 =
    "22 1 0:20 / /proc rw - proc proc rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountsV1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(MachineLimits, WithoutControlGroupsThereAreNone) {
  const Kernel kernel;
  EXPECT_EQ(cgroup_limits(kernel.files()).cores, 0);
  EXPECT_EQ(cgroup_limits(kernel.files()).memory, 0);
  EXPECT_FALSE(count_memory_kills(kernel.files()));
}

TEST(MachineLimits, OfVersion2AreTheStrictestOnTheWayUp) {
  const Kernel kernel;
  kernel.process("0::/pod/worker\n", kMountsV2);
  kernel.write("/sys/fs/cgroup/pod/worker/cpu.max", "max 100000\n");
  kernel.write("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  kernel.write("/sys/fs/cgroup/pod/worker/memory.max", "2000000\n");
  kernel.write("/sys/fs/cgroup/pod/worker/memory.current", "1500000\n");
  kernel.write("/sys/fs/cgroup/pod/worker/memory.stat", "anon 7\ninactive_file 100000\n");
  kernel.write("/sys/fs/cgroup/pod/memory.max", "max\n");
  kernel.write("/sys/fs/cgroup/pod/worker/memory.events", "low 0\noom 4\noom_kill 3\n");
  const CgroupLimits limits = cgroup_limits(kernel.files());
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.memory, 2000000);
  EXPECT_EQ(limits.memory_free, 600000);
  EXPECT_EQ(count_memory_kills(kernel.files()), 3);
}

TEST(MachineLimits, OfVersion1AreFoundByTheirControllers) {
  const Kernel kernel;
  kernel.process("7:cpu,cpuacct:/slurm/job\n4:memory:/slurm/job\n0::/\n", kMountsV1);
  kernel.write("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "-1\n");
  kernel.write("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_period_us", "100000\n");
  kernel.write("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "50000\n");
  kernel.write("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n");
  kernel.write("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n");
  kernel.write("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "1048576\n");
  kernel.write("/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "1048575\n");
  kernel.write("/sys/fs/cgroup/memory/slurm/job/memory.oom_control",
               "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  const CgroupLimits limits = cgroup_limits(kernel.files());
  EXPECT_EQ(limits.cores, 0.5);
  EXPECT_EQ(limits.memory, 1048576);
  EXPECT_EQ(limits.memory_free, 1);
  EXPECT_EQ(count_memory_kills(kernel.files()), 2);
}

// Where a container sees its own control group as the root, but its process knows the whole name.
TEST(MachineLimits, OfAContainerAreWhereItsRootIsMounted) {
  const Kernel kernel;
  kernel.process("0::/docker/42/inner\n",
                 "30 22 0:26 /docker/42 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  kernel.write("/sys/fs/cgroup/inner/cpu.max", "300000 100000\n");
  kernel.write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_limits(kernel.files()).cores, 2);
  kernel.process("0::/../elsewhere\n", kMountsV2);
  EXPECT_EQ(cgroup_limits(kernel.files()).cores, 2);
}

// Names may begin alike: /user-1 is no part of /user-1000.
TEST(MachineLimits, OfAGroupOutsideWhatIsMountedAreThoseOfTheMount) {
  const Kernel kernel;
  kernel.process("0::/slice/user-1000/s1\n",
                 "30 22 0:26 /slice/user-1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  kernel.write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_limits(kernel.files()).cores, 2);
  kernel.process("0::/slice/user-1\n",
                 "30 22 0:26 /slice/user-1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  EXPECT_EQ(cgroup_limits(kernel.files()).cores, 2);
}

TEST(MachineLimits, BecomeThreads) {
  const Kernel kernel;
  const std::size_t cores = usable_cores().size();
  kernel.process("0::/\n", kMountsV2);
  EXPECT_EQ(usable_threads(kernel.files()), static_cast<int>(cores));
  kernel.write("/sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(usable_threads(kernel.files()), 1);
  kernel.write("/sys/fs/cgroup/cpu.max", "9000000 1000\n");
  EXPECT_EQ(usable_threads(kernel.files()), static_cast<int>(cores));
}

TEST(MachineLimits, AThreadBoundToOneCoreHasOne) {
  std::thread([] {
    const std::vector<int> cores = usable_cores();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cores.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cores(), std::vector<int>{cores.back()});
    EXPECT_EQ(usable_threads(), 1);
  }).join();
}

TEST(MachineLimits, AreSharedByTheProcessesThatHaveThem) {
  const std::vector<int> all{0, 1, 2, 3};
  EXPECT_EQ(fair_threads({all, all}, 0, 0), 2);
  EXPECT_EQ(fair_threads({all, all, all}, 1, 0), 1);
  EXPECT_EQ(fair_threads({{0, 1}, {2, 3}}, 1, 0), 2);  // each bound to cores of its own
  EXPECT_EQ(fair_threads({{0, 1}, {1, 2}}, 0, 0), 1);
  EXPECT_EQ(fair_threads({{0}, {0}}, 0, 0), 1);
  EXPECT_EQ(fair_threads({all}, 0, 2.5), 3);
  EXPECT_EQ(fair_threads({all, all}, 0, 2.5), 2);
  EXPECT_EQ(fair_threads({{}, {}}, 0, 0), 1);
}

}  // namespace
}  // namespace lockstep
