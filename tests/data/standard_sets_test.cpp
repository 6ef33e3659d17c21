// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/standard_sets.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::bytes;
using testing::message_of;
using testing::TemporaryFolder;

const std::string kImage = bytes({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 77});
const std::string kLabel = bytes({0, 0, 8, 1, 0, 0, 0, 1, 3});

TEST(StandardSets, MnistTakesItsFilesUnderTheirSeveralNames) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", kImage);
  folder.write("train-labels.idx1-ubyte.gz", kLabel);
  const DatasetPtr set = mnist(folder.path(), true);
  EXPECT_EQ(set->size(), 1);
  EXPECT_EQ(set->class_names()[3], "3");
  EXPECT_EQ(fashion_mnist(folder.path(), true)->class_names()[3], "Dress");
}

TEST(StandardSets, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<NotFound>([&] { mnist(folder.path(), false); }),
            folder.path() + ": has no t10k-images-idx3-ubyte, nor that with .gz");
  EXPECT_EQ(message_of<NotFound>([&] { cifar10(folder.path(), true); }),
            folder.path("data_batch_1.bin") + ": cannot open: no such file or folder");
  EXPECT_EQ(message_of<NotFound>([&] { moby_dick(folder.path()); }),
            folder.path("moby-dick.txt") + ": cannot open: no such file or folder");
}

TEST(StandardSets, EveryFifthMailIsATestSample) {
  const TemporaryFolder folder;
  for (int i = 0; i < 6; ++i) folder.write("ham/" + std::to_string(i), std::to_string(i));
  for (int i = 6; i < 10; ++i) folder.write("spam/" + std::to_string(i), std::to_string(i));
  const TextSet train = spam_assassin(folder.path(), true);
  const TextSet test = spam_assassin(folder.path(), false);
  EXPECT_EQ(train.texts, (std::vector<std::string>{"0", "1", "2", "3", "5", "6", "7", "8"}));
  EXPECT_EQ(train.labels, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(test.texts, (std::vector<std::string>{"4", "9"}));
  EXPECT_EQ(test.class_names, (std::vector<std::string>{"ham", "spam"}));
}

TEST(TextFolder, HiddenFilesAndLooseOnesAreLeftOut) {
  const TemporaryFolder folder;
  folder.write("b/2", "two");
  folder.write("b/.hidden", "no");
  folder.write("a/1", std::string("o\0e\xff", 4));
  folder.write("README", "no");
  folder.write(".git/config", "no");
  const TextSet set = read_text_folder(folder.path());
  EXPECT_EQ(set.texts, (std::vector<std::string>{std::string("o\0e\xff", 4), "two"}));
  EXPECT_EQ(set.labels, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"a", "b"}));
}

TEST(TextFolder, AMissingOrEmptyFolderIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<NotFound>([] { read_text_folder("/no/folder"); }),
            "/no/folder: there is no such folder");
  EXPECT_EQ(message_of<NotFound>([&] { read_text_folder(folder.path()); }),
            folder.path() + ": has no folder in it, expected one for each class");
}

TEST(TextFolder, PartsThatAreNotThereAreRefused) {
  EXPECT_EQ(message_of([] { take_every({}, 5, 4, 6); }), "take_every: parts [4, 6) of 5");
}

}  // namespace
}  // namespace lockstep::data
