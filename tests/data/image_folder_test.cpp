// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/image_folder.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/data/jpegged.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::jpeg_of;
using testing::message_of;

// cats/a.jpg, cats/b.PNG, dogs/bad.png, dogs/c.jpeg
class ImageFolders : public ::testing::Test {
 protected:
  ImageFolders() {
    folder.write("dogs/c.jpeg", jpeg_of(4, 6, {10, 20, 200}));
    folder.write("dogs/bad.png", "not a png");
    folder.write("cats/b.PNG", encode_png(Tensor::full({2, 3}, 7, DType::uint8)));
    folder.write("cats/a.jpg", jpeg_of(5, 5, {100}));
    folder.write("cats/notes.txt", "no image");
  }
  testing::TemporaryFolder folder;
};

TEST_F(ImageFolders, ImagesAreTakenByNameAndDecodedWhenAskedFor) {
  const ImageFolder set(folder.path());
  EXPECT_EQ(set.size(), 4);
  EXPECT_EQ(set.class_names(), (std::vector<std::string>{"cats", "dogs"}));
  EXPECT_EQ(set.path(1), folder.path("cats/b.PNG"));
  EXPECT_EQ(set.sample(1)[0].info().str(), "uint8[2, 3, 3]");
  EXPECT_EQ(set.sample(1)[1].item(), 0);
  EXPECT_EQ(set.sample(3)[0].shape(), (Shape{6, 4, 3}));
  EXPECT_EQ(set.sample(3)[1].item(), 1);
  EXPECT_EQ(set.sample(3)[1].info().str(), "int64[]");
}

TEST_F(ImageFolders, ABadImageIsNamedWhenItIsAskedFor) {
  const ImageFolder set(folder.path());
  EXPECT_EQ(message_of<Corrupt>([&] { set.sample(2); }),
            folder.path("dogs/bad.png") +
                ": image: begins with 6e 6f 74 20, which is neither JPEG nor PNG");
}

TEST_F(ImageFolders, BadImagesCanBeLeftOut) {
  std::vector<std::int64_t> done;
  const ImageFolder set(
      folder.path(),
      {.skip_bad = true, .progress = [&](std::int64_t count, std::int64_t total, std::string_view) {
         EXPECT_EQ(total, 4);
         done.push_back(count);
       }});
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.path(2), folder.path("dogs/c.jpeg"));
  EXPECT_EQ(set.sample(2)[1].item(), 1);
  ASSERT_EQ(set.skipped().size(), 1);
  EXPECT_TRUE(set.skipped()[0].starts_with(folder.path("dogs/bad.png: image")));
  EXPECT_EQ(done, (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST_F(ImageFolders, GreyStaysGreyWhenAsked) {
  const ImageFolder set(folder.path(), {.image = {.channels = Channels::as_stored}});
  EXPECT_EQ(set.sample(0)[0].shape(), (Shape{5, 5, 1}));
}

TEST_F(ImageFolders, ASampleThatIsNotThereIsRefused) {
  EXPECT_EQ(message_of([&] { ImageFolder(folder.path()).sample(4); }),
            "dataset: sample 4 of 4 samples");
}

TEST_F(ImageFolders, ALinkToWhatIsNotThereIsNamedOrLeftOut) {
  std::filesystem::create_symlink("../lost/b.png", folder.path("dogs/a.png"));
  std::filesystem::create_symlink("nowhere", folder.path("dogs/no-image"));
  const std::string line =
      folder.path("dogs/a.png") + ": is a link to ../lost/b.png, which is not there";
  EXPECT_EQ(message_of<NotFound>([&] { ImageFolder{folder.path()}; }), line);
  const ImageFolder set(folder.path(), {.skip_bad = true});
  EXPECT_EQ(set.size(), 3);
  ASSERT_EQ(set.skipped().size(), 2);
  EXPECT_EQ(set.skipped()[0], line);
  std::filesystem::create_symlink("birds.lost", folder.path("birds"));
  EXPECT_EQ(message_of<NotFound>([&] { ImageFolder(folder.path(), {.skip_bad = true}); }),
            folder.path("birds") + ": is a link to birds.lost, which is not there");
}

TEST_F(ImageFolders, AClassWithoutAnImageIsNamed) {
  folder.write("birds/notes.txt", "");
  EXPECT_EQ(message_of<NotFound>([&] { ImageFolder{folder.path()}; }),
            folder.path() + ": a class has no .jpg, .jpeg or .png file: birds");
  folder.write("fish/bad.png", "");
  EXPECT_EQ(message_of<NotFound>([&] { ImageFolder(folder.path(), {.skip_bad = true}); }),
            folder.path() +
                ": classes have no .jpg, .jpeg or .png file that can be decoded: birds, fish");
  const ImageFolder set(folder.path(), {.allow_empty = true});
  EXPECT_EQ(set.empty_classes(), std::vector<std::string>{"birds"});
  EXPECT_EQ(set.class_names().size(), 4);
}

TEST(ImageFolder, AFolderWithoutImagesIsNamed) {
  const testing::TemporaryFolder folder;
  folder.write("a/x.txt", "");
  EXPECT_EQ(message_of<NotFound>([&] { ImageFolder{folder.path()}; }),
            folder.path() + ": its 1 folders have no .jpg, .jpeg or .png file");
  folder.write("a/x.png", "");
  EXPECT_EQ(message_of<NotFound>([&] { ImageFolder(folder.path(), {.skip_bad = true}); }),
            folder.path() + ": its 1 folders have no .jpg, .jpeg or .png file that can be decoded");
  EXPECT_THROW(ImageFolder("/no/folder"), NotFound);
}

}  // namespace
}  // namespace lockstep::data
