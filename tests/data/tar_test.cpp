// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/tar.h"

#include <gtest/gtest.h>

#include "tests/data/tarred.h"
#include "tests/message.h"

namespace lockstep::data::detail {
namespace {

using testing::message_of;
using testing::tar_entry;
using testing::tar_of;

TEST(Tar, FilesComeInTheirOrder) {
  const std::string archive = tar_of({{"b", "hello"}, {"a/c", std::string(1000, 'x')}, {"d", ""}});
  const std::vector<TarFile> files = parse_tar(archive, "t");
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(files[0].path, "b");
  EXPECT_EQ(files[0].contents, "hello");
  EXPECT_EQ(files[1].contents.size(), 1000);
  EXPECT_EQ(files[2].path, "d");
}

TEST(Tar, FoldersAreLeftOut) { EXPECT_TRUE(parse_tar(tar_entry("folder/", "", '5'), "t").empty()); }

TEST(Tar, LongNamesComeFromTheEntryBefore) {
  const std::string name(150, 'n');
  const std::string pax = "160 path=" + name + "\n";
  for (const std::string& before : {tar_entry("x", pax + "junk", 'x'), tar_entry("L", name, 'L')}) {
    const std::string archive = before + tar_entry("short", "1") + tar_entry("other", "2");
    const std::vector<TarFile> files = parse_tar(archive, "t");
    ASSERT_EQ(files.size(), 2);
    EXPECT_EQ(files[0].path, name);
    EXPECT_EQ(files[1].path, "other");
  }
}

TEST(Tar, DamageIsCorrupt) {
  std::string archive = tar_of({{"a", "hello"}});
  EXPECT_EQ(message_of<Corrupt>([&] { parse_tar(archive.substr(0, 100), "t"); }),
            "t: tar: ends within a header: 412 bytes are missing");
  EXPECT_EQ(message_of<Corrupt>([&] { parse_tar(archive.substr(0, 514), "t"); }),
            "t: tar: ends within a file: 3 bytes are missing");
  archive[3] = 'x';
  EXPECT_EQ(message_of<Corrupt>([&] { parse_tar(archive, "t"); }),
            "t: tar: the header of file 0 has a wrong checksum");
}

}  // namespace
}  // namespace lockstep::data::detail
