// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/catalogue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lockstep/base/sha256.h"
#include "lockstep/data/detail/install.h"
#include "tests/data/files.h"
#include "tests/data/gzipped.h"
#include "tests/data/tarred.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using detail::install;
using detail::PackagedSet;
using testing::message_of;
using testing::TemporaryFolder;

// A set of one file and one folder, made of a package of two files.
PackagedSet small_set() {
  const std::string manifest = sha256_hex("two") + "  b.txt\n";
  return {{"small",
           "a small set",
           "npm package small 1",
           1,
           0,
           {{"a.txt", 3, sha256_hex("one")}, {"texts", 3, sha256_hex(manifest), 1}}},
          "small@1",
          [](const std::vector<detail::TarFile>& package, const detail::WriteFile& write) {
            write("a.txt", detail::find_file(package, "package/a"));
            write("texts/b.txt", detail::find_file(package, "package/b"));
          }};
}

// A cache and an npm that is a shell script.
class NamedSets : public ::testing::Test {
 protected:
  NamedSets() {
    folder.write("good.tgz",
                 testing::gzipped(testing::tar_of({{"package/a", "one"}, {"package/b", "two"}})));
    options.cache_dir = folder.path("cache");
    npm("cp " + folder.path("good.tgz") + " small-1.tgz; echo $2 >> " + folder.path("calls"));
  }
  void npm(const std::string& body) {
    options.npm = folder.write("npm", "#!/bin/sh\n" + body + "\n");
    fs::permissions(options.npm, fs::perms::owner_all);
  }
  std::string failure() {
    return message_of<Error>([&] { install(small_set(), options); });
  }
  // Nothing but lock files may be left by a failure.
  void expect_nothing_left() {
    for (const fs::directory_entry& entry : fs::directory_iterator(options.cache_dir))
      EXPECT_EQ(entry.path().filename(), ".small.lock");
  }

  TemporaryFolder folder;
  GetOptions options;
};

TEST_F(NamedSets, AMissingSetIsFetchedOnce) {
  const std::string path = install(small_set(), options);
  EXPECT_EQ(path, folder.path("cache/small"));
  EXPECT_EQ(read_file(path + "/a.txt"), "one");
  EXPECT_EQ(read_file(path + "/texts/b.txt"), "two");
  EXPECT_EQ(install(small_set(), options), path);
  EXPECT_EQ(read_file(folder.path("calls")), "small@1\n");
  EXPECT_FALSE(fs::exists(folder.path("cache/.small.tmp")));
}

TEST_F(NamedSets, AFileOfAnotherSizeIsFetchedAgain) {
  const std::string path = install(small_set(), options);
  write_file(path + "/texts/b.txt", "longer");
  install(small_set(), options);
  EXPECT_EQ(read_file(path + "/texts/b.txt"), "two");
}

TEST_F(NamedSets, AChangedFileIsSeenWhenSumsAreAskedFor) {
  const std::string path = install(small_set(), options);
  write_file(path + "/a.txt", "eno");
  install(small_set(), options);
  EXPECT_EQ(read_file(path + "/a.txt"), "eno");
  options.verify = true;
  install(small_set(), options);
  EXPECT_EQ(read_file(path + "/a.txt"), "one");
}

TEST_F(NamedSets, WhatAKilledProcessLeftIsRemoved) {
  folder.write("cache/.small.tmp/package/old.tgz", "broken");
  folder.write("cache/.small.tmp/set/old", "broken");
  EXPECT_FALSE(fs::exists(install(small_set(), options) + "/old"));
}

TEST_F(NamedSets, AWrongSumLeavesNothing) {
  folder.write("good.tgz",
               testing::gzipped(testing::tar_of({{"package/a", "eno"}, {"package/b", "two"}})));
  EXPECT_EQ(failure(), "npm package small 1: the SHA-256 of a.txt is " + sha256_hex("eno") +
                           ", expected " + sha256_hex("one"));
  expect_nothing_left();
}

TEST_F(NamedSets, ATruncatedPackageLeavesNothing) {
  const std::string whole = read_file(folder.path("good.tgz"));
  folder.write("good.tgz", std::string_view(whole).substr(0, 10));
  EXPECT_EQ(failure(), "small@1: gzip: ends early, after 0 bytes of contents");
  expect_nothing_left();
}

TEST_F(NamedSets, APackageWithoutAFileLeavesNothing) {
  folder.write("good.tgz", testing::gzipped(testing::tar_of({{"package/a", "one"}})));
  EXPECT_EQ(failure(), "package/b: is not in the package");
  expect_nothing_left();
}

TEST_F(NamedSets, WhatNpmSaysLastIsInTheError) {
  npm("for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 7");
  EXPECT_EQ(failure(), "npm pack small@1: exit status 7: line 3 line 4 line 5 line 6");
  npm("exit 1");
  EXPECT_EQ(failure(), "npm pack small@1: exit status 1: it said nothing");
  npm("exit 0");
  EXPECT_EQ(failure(), "npm pack small@1: left no .tgz file");
  expect_nothing_left();
}

TEST_F(NamedSets, NpmThatHangsIsEnded) {
  npm("exec sleep 1000");
  options.deadline = std::chrono::milliseconds(100);
  EXPECT_EQ(failure(), options.npm + ": was not done after 0.1 s");
  expect_nothing_left();
}

TEST_F(NamedSets, AMissingNpmIsNamed) {
  options.npm = "no-such-npm";
  EXPECT_EQ(failure(),
            "no-such-npm: no such program, and the package small@1 is fetched with it: install "
            "npm");
}

TEST_F(NamedSets, ACacheThatCannotBeMadeIsNamed) {
  folder.write("file", "");
  options.cache_dir = folder.path("file/cache");
  EXPECT_EQ(failure(), options.cache_dir + ": cannot create: Not a directory");
}

TEST_F(NamedSets, SeveralAtOnceFetchOnce) {
  npm("sleep 0.2; cp " + folder.path("good.tgz") + " small-1.tgz; echo x >> " +
      folder.path("calls"));
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { install(small_set(), options); });
  }
  EXPECT_EQ(read_file(folder.path("calls")), "x\n");
  EXPECT_TRUE(detail::has_files(small_set().info, folder.path("cache/small")));
}

TEST_F(NamedSets, ProgressSaysWhatIsDone) {
  std::vector<std::string> stages;
  std::int64_t done = 0;
  options.progress = [&](std::int64_t bytes, std::int64_t total, std::string_view what) {
    if (stages.empty() || stages.back() != what) stages.emplace_back(what);
    EXPECT_TRUE(total == -1 || total == 6) << total;
    done = bytes;
  };
  install(small_set(), options);
  EXPECT_EQ(stages, (std::vector<std::string>{"fetching small@1", "unpacking small@1",
                                              "writing small", "checking small"}));
  EXPECT_EQ(done, 6);
}

TEST_F(NamedSets, TheSetsHaveNames) {
  std::vector<std::string> names;
  for (const SetInfo& info : list_sets()) names.push_back(info.name);
  EXPECT_EQ(names, (std::vector<std::string>{"mnist", "fashion-mnist", "cifar10", "moby-dick",
                                             "spam-assassin"}));
  EXPECT_EQ(message_of<NotFound>([&] { get("mnits", options); }),
            "data: no set is named 'mnits'; there are mnist, fashion-mnist, cifar10, moby-dick, "
            "spam-assassin");
  for (const SetInfo& info : list_sets())
    for (const SetFile& file : info.files) EXPECT_EQ(file.sha256.size(), 64) << file.path;
}

TEST_F(NamedSets, ASetOfTheSystemSaysHowToInstallIt) {
  options.system_dir = folder.path("datasets");
  EXPECT_FALSE(is_available("fashion-mnist", options));
  EXPECT_EQ(message_of<NotFound>([&] { get("fashion-mnist", options); }),
            folder.path("datasets/fashion-mnist") +
                ": fashion-mnist is not there: apt-get install dataset-fashion-mnist");
}

TEST_F(NamedSets, ASetOfTheSystemIsCheckedToo) {
  options.system_dir = folder.path("datasets");
  for (const SetFile& file : set_info("fashion-mnist").files)
    folder.write("datasets/fashion-mnist/" + file.path, "x");
  EXPECT_EQ(get("fashion-mnist", options), folder.path("datasets/fashion-mnist"));
  options.verify = true;
  EXPECT_THROW(get("fashion-mnist", options), Corrupt);
}

TEST_F(NamedSets, WithoutACacheFolderNothingIsFetched) {
  EXPECT_EQ(message_of([] { get("mnist", {}); }), "data: no cache folder was given");
}

TEST(CacheDir, TheFirstThatIsSetCounts) {
  EXPECT_EQ(cache_dir("/d", "/x", "/h"), "/d");
  EXPECT_EQ(cache_dir("", "/x", "/h"), "/x/lockstep");
  EXPECT_EQ(cache_dir(nullptr, nullptr, "/h"), "/h/.cache/lockstep");
  EXPECT_EQ(message_of([] { cache_dir(nullptr, "", nullptr); }),
            "data: no folder for data sets: set LOCKSTEP_DATA or HOME");
}

}  // namespace
}  // namespace lockstep::data
