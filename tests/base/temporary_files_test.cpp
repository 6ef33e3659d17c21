// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/temporary_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "lockstep/base/file.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::set<std::string> sorted_names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST(TemporaryFiles, ANameStandsForWhatItWasMadeOf) {
  EXPECT_EQ(lasting_name(temporary_name("step-7.ckpt")), "step-7.ckpt");
  EXPECT_EQ(lasting_name("a.tmp1-00000000.tmp12-0123abcd"), "a.tmp1-00000000");
  EXPECT_NE(temporary_name("a"), temporary_name("a"));
}

TEST(TemporaryFiles, WhatAUserCallsHisFilesIsNoTemporaryName) {
  for (const char* name :
       {"a", "notes.tmp", "a.tmp5", "a.tmp-0123abcd", "a.tmp5-0123abc", "a.tmp5-0123abcde",
        "a.tmp5-0123ABCD", ".tmp5-0123abcd", "a.tmpx-0123abcd"})
    EXPECT_FALSE(lasting_name(name)) << name;
}

TEST(TemporaryFiles, OnlyWhatOthersLeftAndIsOursGoes) {
  const testing::TemporaryFolder owned;
  const std::string& folder = owned.path();
  for (const char* name : {"a.json.tmp1-00000000", "b.json.tmp1-00000000", "a.json", "a.json.tmp"})
    write_file(folder + "/" + name, "x");
  fs::create_directory(folder + "/a.json.tmp1-00000001");
  AtomicFile mine(folder + "/a.json");
  const auto before = sorted_names_in(folder);
  remove_temporaries(folder, [](const std::string& name) { return name == "a.json"; });
  auto expected = before;
  expected.erase("a.json.tmp1-00000000");
  EXPECT_EQ(sorted_names_in(folder), expected);
  remove_temporaries(folder + "/nowhere", [](const std::string&) { return true; });
}

}  // namespace
}  // namespace lockstep
