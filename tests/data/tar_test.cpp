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

std::string complaint(const std::string& archive) {
  return message_of<Corrupt>([&] { parse_tar(archive, "t"); });
}

// Types of tar: hard link, symbolic link, device, folder, pipe.
TEST(Tar, FoldersLinksAndDevicesAreLeftOut) {
  for (const char type : {'1', '2', '3', '5', '6'}) {
    const std::vector<TarFile> files =
        parse_tar(tar_entry("odd", "", type) + tar_entry("even", "1"), "t");
    ASSERT_EQ(files.size(), 1) << type;
    EXPECT_EQ(files[0].path, "even");
  }
}

TEST(Tar, AnEmptyArchiveHasNoFiles) {
  EXPECT_TRUE(parse_tar("", "t").empty());
  EXPECT_TRUE(parse_tar(std::string(1024, '\0'), "t").empty());
}

TEST(Tar, LongNamesComeFromTheEntryBefore) {
  const std::string name(150, 'n');
  const std::string pax = "160 path=" + name + "\n";
  for (const std::string& before : {tar_entry("x", pax, 'x'), tar_entry("L", name, 'L')}) {
    const std::string archive = before + tar_entry("short", "1") + tar_entry("other", "2");
    const std::vector<TarFile> files = parse_tar(archive, "t");
    ASSERT_EQ(files.size(), 2);
    EXPECT_EQ(files[0].path, name);
    EXPECT_EQ(files[1].path, "other");
  }
}

TEST(Tar, NamesKeepTheirBytesInAnyLocale) {
  const std::string archive = tar_entry("caf\xc3\xa9", "1") + tar_entry("caf\xe9", "2") +
                              tar_entry("x", "14 path=\xe6\xbc\xa2 y\n", 'x') + tar_entry("z", "3");
  const std::vector<TarFile> files = parse_tar(archive, "t");
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(files[0].path, "caf\xc3\xa9");
  EXPECT_EQ(files[1].path, "caf\xe9");
  EXPECT_EQ(files[2].path, "\xe6\xbc\xa2 y");
}

TEST(Tar, DamageIsCorrupt) {
  std::string archive = tar_of({{"a", "hello"}, {"b", "there"}});
  EXPECT_EQ(complaint(archive.substr(0, 100)), "t: tar: Unrecognized archive format");
  EXPECT_EQ(complaint(archive.substr(0, 514)), "t: tar: Truncated tar archive");
  EXPECT_EQ(complaint(archive.substr(0, 1100)), "t: tar: Truncated tar archive");
  archive[1024 + 3] = 'x';
  EXPECT_EQ(complaint(archive), "t: tar: Damaged tar archive");
  archive[3] = 'x';
  EXPECT_EQ(complaint(archive), "t: tar: Unrecognized archive format");
  const std::string pax = tar_entry("x", "15 path=other\njunk", 'x');
  EXPECT_EQ(complaint(pax + tar_entry("a", "1")).find("t: tar: Ignoring malformed pax"), 0);
}

TEST(Tar, APathThatLeadsOutOfTheArchiveIsCorrupt) {
  for (const std::string path : {"../a", "a/../../b", "a/..", "/etc/a"})
    EXPECT_EQ(complaint(tar_entry(path, "1")), "t: tar: " + path + ": leads out of the archive");
  EXPECT_EQ(parse_tar(tar_entry("a..b/..c", "1"), "t").size(), 1);
}

// Two bytes of data, at the end of a file of 100 GB that is otherwise a hole.
TEST(Tar, AFileThatSaysToBeLargerThanTheArchiveIsCorrupt) {
  const std::string sparse =
      "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n36 GNU.sparse.realsize=100000000000\n"
      "25 GNU.sparse.name=large\n";
  const std::string map = "1\n99999999998\n2\n";
  const std::string contents = map + std::string(512 - map.size(), '\0') + "xy";
  EXPECT_EQ(complaint(tar_entry("x", sparse, 'x') + tar_entry("large", contents)),
            "t: tar: large: says that it has 100000000000 bytes, more than the archive");
  EXPECT_EQ(complaint(tar_entry("x", "21 size=999999999999\n", 'x') + tar_entry("a", "1")),
            "t: tar: a: says that it has 999999999999 bytes, more than the archive");
}

}  // namespace
}  // namespace lockstep::data::detail
