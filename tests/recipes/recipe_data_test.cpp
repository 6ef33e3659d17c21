// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/recipe_data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/data/codec.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::recipes {
namespace {

using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;

TEST(TextCodec, WordsAreCutOrFilledUpInFront) {
  const std::vector<std::string> texts{"the whale", "The sea"};
  const TextCodec codec(find_recipe("text-lstm"), texts);
  const std::vector<std::int64_t> numbers = codec.encode("the white whale");
  ASSERT_EQ(numbers.size(), 100U);
  EXPECT_EQ(numbers[96], 0);  // padding
  EXPECT_EQ(numbers[97], codec.vocabulary().number("the"));
  EXPECT_EQ(numbers[98], 1);  // unknown
  EXPECT_EQ(numbers[99], codec.vocabulary().number("whale"));
}

TEST(TextCodec, CharactersComeBackAsTheyWere) {
  const std::vector<std::string> texts{"Call me Ishmael."};
  const TextCodec codec(find_recipe("char-gpt"), texts);
  EXPECT_EQ(codec.decode(codec.encode("Call Ishmael.")), "Call Ishmael.");
  const std::int64_t strange[] = {95};
  EXPECT_EQ(codec.decode(strange), "\uFFFD");
}

TEST(RecipeData, ABooksLastTenthIsHeldOut) {
  const TemporaryFolder folder("recipe_data");
  write_file(folder.path() + "/a.txt", std::string(9000, 'a'));
  write_file(folder.path() + "/b.txt", std::string(1000, 'b'));
  const RecipeData data = open_data(find_recipe("char-gpt"), {.place = folder.path()});
  EXPECT_EQ(data.train->size(), (9000 - 1 - 128) / 32 + 1);
  EXPECT_EQ(data.test->size(), (1000 - 1 - 128) / 128 + 1);
  EXPECT_EQ(data.test->sample(0)[0].to_vector<int>()[0], 1);  // 'b' was never learnt
}

TEST(RecipeData, OtherFilesHaveAnotherSum) {
  const auto sum_of = [](const std::string& text) {
    const TemporaryFolder folder("recipe_data_sum");
    write_file(folder.path() + "/a.txt", text);
    return data_sha256(open_data(find_recipe("char-gpt"), {.place = folder.path()}));
  };
  const std::string text(9000, 'a'), same(9000, 'a'), longer(9001, 'a');
  EXPECT_EQ(sum_of(text), sum_of(same));
  EXPECT_NE(sum_of(text), sum_of(std::string(9000, 'b')));
  EXPECT_NE(sum_of(text), sum_of(longer + std::string(1000, 'a')));
}

TEST(RecipeData, TextsHaveAFolderForEachClass) {
  const TemporaryFolder folder("recipe_data");
  for (const char* name : {"ham", "spam"}) {
    std::filesystem::create_directory(folder.path() + "/" + name);
    for (int i = 0; i < 5; ++i)
      write_file(folder.path() + "/" + name + "/" + std::to_string(i), "a mail");
  }
  const RecipeData data = open_data(find_recipe("text-lstm"), {.place = folder.path()});
  EXPECT_EQ(data.train->size(), 8);
  EXPECT_EQ(data.test->size(), 2);
  EXPECT_EQ(data.test->class_names(), (std::vector<std::string>{"ham", "spam"}));
  std::filesystem::create_directory(folder.path() + "/third");
  write_file(folder.path() + "/third/1.png",
             data::encode_png(Tensor::zeros({8, 8, 1}, DType::uint8)));
  EXPECT_EQ(message_of([&] { open_data(find_recipe("text-lstm"), {.place = folder.path()}); }),
            folder.path() + "/third/1.png: is an image, expected a text");
}

TEST(RecipeData, FoldersOfFoldersAreNoTexts) {
  const TemporaryFolder folder("recipe_data");
  for (const char* name : {"train/a", "test/a"})
    std::filesystem::create_directories(folder.path() + "/" + name);
  EXPECT_EQ(message_of([&] { open_data(find_recipe("text-lstm"), {.place = folder.path()}); }),
            folder.path() + ": its folders test, train have no files, expected texts");
}

TEST(RecipeData, OneClassOfImagesIsNothingToLearn) {
  const TemporaryFolder folder("recipe_data");
  std::filesystem::create_directories(folder.path() + "/train/a");
  write_file(folder.path() + "/train/a/1.png",
             data::encode_png(Tensor::zeros({8, 8, 1}, DType::uint8)));
  EXPECT_EQ(message_of([&] { open_data(find_recipe("mnist-mlp"), {.place = folder.path()}); }),
            folder.path() + "/train: has the class a alone, expected 2 classes or more");
}

TEST(RecipeData, TooFewTextsLeaveNoneToTestWith) {
  const TemporaryFolder folder("recipe_data");
  for (const char* name : {"ham", "spam"}) {
    std::filesystem::create_directory(folder.path() + "/" + name);
    write_file(folder.path() + "/" + name + "/1", "a mail");
  }
  EXPECT_EQ(message_of([&] { open_data(find_recipe("text-lstm"), {.place = folder.path()}); }),
            folder.path() + ": has 2 texts, expected 5 or more: every fifth is held out");
}

// Labels are numbers of folders: another set of folders would give the same class another number.
TEST(RecipeData, ImagesForTestingHaveTheClassesOfThoseForTraining) {
  const TemporaryFolder folder("recipe_data");
  const std::string png = data::encode_png(Tensor::zeros({28, 28, 1}, DType::uint8));
  for (const char* name : {"train/a", "train/b", "train/c", "test/b", "test/c"}) {
    std::filesystem::create_directories(folder.path() + "/" + name);
    write_file(folder.path() + "/" + name + "/1.png", png);
  }
  EXPECT_EQ(message_of([&] { open_data(find_recipe("mnist-mlp"), {.place = folder.path()}); }),
            folder.path() + ": train has the classes a, b, c; test has b, c");
}

TEST(RecipeData, WhatIsMissingIsNamed) {
  EXPECT_EQ(
      message_of<NotFound>([] { open_data(find_recipe("mnist-mlp"), {.place = "/no/where"}); }),
      "/no/where: there is no such folder with mnist's data");
  const TemporaryFolder folder("recipe_data");
  EXPECT_EQ(
      message_of<NotFound>([&] { open_data(find_recipe("char-gpt"), {.place = folder.path()}); }),
      folder.path() + ": has no .txt file");
}

}  // namespace
}  // namespace lockstep::recipes
