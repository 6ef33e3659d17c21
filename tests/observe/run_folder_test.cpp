// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/message.h"
#include "tests/observe/folder.h"

namespace lockstep::observe {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;
using lockstep::testing::write_quickly;

// A run that was started and has ended.
std::string finished_run(const TemporaryFolder& folder, const std::string& config) {
  const RunFolder run = RunFolder::create(folder / "run");
  run.write_config(config);
  return run.path();
}

TEST(RunFolder, CreatesTheFolderAndItsParents) {
  const TemporaryFolder folder;
  const RunFolder run = RunFolder::create(folder / "a/b/run/");
  EXPECT_EQ(run.path(), folder / "a/b/run");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/run"));
  run.write_config("{\"seed\": 1}");
  EXPECT_EQ(read_file(folder / "a/b/run/config.json"), "{\"seed\": 1}");
  EXPECT_EQ(RunFolder::open(run.path()).read_config(), "{\"seed\": 1}");
}

TEST(RunFolder, RefusesOneThatExists) {
  const TemporaryFolder folder;
  const std::string path = finished_run(folder, "{}");
  EXPECT_EQ(
      message_of([&] { RunFolder::create(path); }),
      "run: '" + path + "' exists already; choose another --out, or --resume to go on with it");
  write_quickly(folder / "file", "");
  EXPECT_EQ(message_of([&] { RunFolder::create(folder / "file"); }),
            "run: '" + (folder / "file") +
                "' exists already; choose another --out, or --resume to go on with it");
}

TEST(RunFolder, TakesAnEmptyFolderAndOneThatNeverGotAConfiguration) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");
  { const RunFolder run = RunFolder::create(folder / "run"); }
  EXPECT_EQ(RunFolder::create(folder / "run").path(), folder / "run");
}

// Killed between the first files of a run.
TEST(RunFolder, WhatIsLeftOfABeginningIsNoRunAndInNobodysWay) {
  const TemporaryFolder folder;
  {
    const RunFolder run = RunFolder::create(folder / "run");
    write_quickly(run.classes_path(), "[]");
    write_quickly(run.vocabulary_path() + ".tmp77-00c0ffee", "a");
    write_quickly(run.config_path() + ".tmp77-00c0ffee", "{");
  }
  EXPECT_THROW(RunFolder::open(folder / "run"), NotFound);
  EXPECT_EQ(RunFolder::create(folder / "run").path(), folder / "run");
  write_quickly(folder / "run/mine", "");
  EXPECT_THROW(RunFolder::create(folder / "run"), InvalidArgument);
}

TEST(RunFolder, OneThatNeverBeganIsRemoved) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "mine");
  const RunFolder made = RunFolder::create(folder / "run"),
                  given = RunFolder::create(folder / "mine");
  for (const RunFolder* run : {&made, &given}) {
    run->write_config("{}");
    run->remove();
  }
  EXPECT_FALSE(fs::exists(folder / "run"));
  EXPECT_TRUE(fs::is_empty(folder / "mine")) << "it was there before, and stays";
}

TEST(RunFolder, TheNextFreeNumberIsTaken) {
  const TemporaryFolder folder;
  const RunFolder first = RunFolder::create_next(folder / "runs", "mnist-mlp");
  fs::create_directory(folder / "runs/mnist-mlp-2");
  const RunFolder third = RunFolder::create_next(folder / "runs/", "mnist-mlp");
  const RunFolder other = RunFolder::create_next(folder / "runs", "char-gpt");
  EXPECT_EQ(first.path(), folder / "runs/mnist-mlp-1");
  EXPECT_EQ(third.path(), folder / "runs/mnist-mlp-3");
  EXPECT_EQ(other.path(), folder / "runs/char-gpt-1");
}

TEST(RunFolder, ResumingNeedsARun) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<NotFound>([&] { RunFolder::resume(folder / "run"); }),
            "run: there is no folder '" + (folder / "run") +
                "'; without --resume a new run starts there");
  EXPECT_EQ(message_of<NotFound>([&] { RunFolder::resume(folder.path()); }),
            "run: '" + folder.path() + "' has no config.json, so it is not a run to go on with");
  EXPECT_EQ(message_of<NotFound>([&] { RunFolder::open(folder / "run"); }),
            "run: there is no folder '" + (folder / "run") + "'");
  EXPECT_EQ(message_of<NotFound>([&] { RunFolder::open(folder.path()); }),
            "run: '" + folder.path() + "' has no config.json, so it is not a run");
}

TEST(RunFolder, WhatAKilledProcessLeftHalfWrittenIsRemoved) {
  const TemporaryFolder folder;
  const std::string path = finished_run(folder, "{}");
  write_quickly(path + "/status.json.tmp1-00c0ffee", "half");
  write_quickly(path + "/stop.request.tmp2-00c0ffee", "somebody else's");
  write_quickly(path + "/notes.txt", "mine");
  const RunFolder run = RunFolder::resume(path);
  EXPECT_FALSE(fs::exists(path + "/status.json.tmp1-00c0ffee"));
  EXPECT_TRUE(fs::exists(path + "/stop.request.tmp2-00c0ffee"));
  EXPECT_TRUE(fs::exists(path + "/notes.txt"));
}

TEST(RunFolder, TwoProcessesDoNotTrainInOneFolder) {
  const TemporaryFolder folder;
  const std::string path = finished_run(folder, "{}");
  {
    const RunFolder run = RunFolder::resume(path);
    EXPECT_EQ(message_of([&] { RunFolder::resume(path); }),
              "run: '" + path + "' is being trained by another process; wait for it or stop it");
    EXPECT_EQ(RunFolder::open(path).path(), path);
  }
  EXPECT_EQ(RunFolder::resume(path).path(), path);
}

TEST(RunFolder, WhatTheSystemRefusesIsAnIoErrorWithThePath) {
  const TemporaryFolder folder;
  write_quickly(folder / "file", "");
  EXPECT_EQ(message_of<IoError>([&] { RunFolder::create(folder / "file/a/run"); }),
            "run: '" + (folder / "file/a") + "' cannot be created: Not a directory");
  EXPECT_EQ(message_of<IoError>([] { RunFolder::create("/proc/run"); }),
            "run: '/proc/run' cannot be created: No such file or directory");
  EXPECT_EQ(message_of([] { RunFolder::create(""); }), "run: the folder's name is empty");
}

TEST(RunFolder, AnUnwritableFolderIsAnIoError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(message_of<IoError>([&] { RunFolder::create(folder / "run"); }),
            "run: '" + (folder / "run") + "' cannot be created: Permission denied");
}

TEST(CompareConfigs, NamesTheDifferingKeysWithBothValues) {
  const auto found = compare_configs(R"({"seed": 1, "data": {"batch": 64, "dir": "a"}, "old": []})",
                                     R"({"data": {"batch": 32, "dir": "a"}, "seed": 1, "new": 2})");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].key + " " + found[0].before + " " + found[0].now, "data.batch 64 32");
  EXPECT_EQ(found[1].key + " " + found[1].before + " " + found[1].now, "new nothing 2");
  EXPECT_EQ(found[2].key + " " + found[2].before + " " + found[2].now, "old [] nothing");
}

TEST(CompareConfigs, SomeKeysMayDiffer) {
  const std::vector<std::string> ignored = {"threads", "data"};
  EXPECT_TRUE(compare_configs(R"({"threads": 1, "data": {"dir": "a"}})",
                              R"({"threads": 2, "data": {"dir": "b"}})", ignored)
                  .empty());
  EXPECT_EQ(compare_configs(R"({"threads_x": 1})", R"({"threads_x": 2})", ignored).size(), 1u);
}

TEST(CompareConfigs, TheSameTextIsNoDifference) {
  EXPECT_TRUE(compare_configs(R"({"a": [1, {"b": null}]})", R"({ "a":[1,{"b":null}] })").empty());
}

TEST(CompareConfigs, AKeyThatWasNotThereYetHasItsDefault) {
  const auto with = [](const char* now) {
    return compare_configs(R"({"seed": 1})", now, {}, R"({"algorithm": "tree", "seed": 7})");
  };
  EXPECT_TRUE(with(R"({"seed": 1, "algorithm": "tree"})").empty());
  const auto found = with(R"({"seed": 1, "algorithm": "ring"})");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].before, "\"tree\"");
}

TEST(CheckSameConfig, TellsWhatToDo) {
  const TemporaryFolder folder;
  const std::string path = finished_run(folder, R"({"seed": 1, "recipe": "mnist-mlp"})");
  const RunFolder run = RunFolder::resume(path);
  check_same_config(run, R"({"recipe": "mnist-mlp", "seed": 1})");
  EXPECT_EQ(
      message_of([&] { check_same_config(run, R"({"recipe": "char-gpt", "seed": 2})"); }),
      "run: '" + path +
          "' was started with another configuration: recipe was \"mnist-mlp\", now \"char-gpt\"; "
          "seed was 1, now 2; use the old values, or another --out");
}

TEST(CheckSameConfig, ABrokenConfigurationIsNamed) {
  const TemporaryFolder folder;
  const std::string path = finished_run(folder, "{\"seed\": ");
  const RunFolder run = RunFolder::resume(path);
  EXPECT_EQ(message_of<Corrupt>([&] { check_same_config(run, "{}"); }),
            path + "/config.json: not a JSON object");
}

}  // namespace
}  // namespace lockstep::observe
