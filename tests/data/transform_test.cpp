// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lockstep/data/image.h"
#include "tests/data/images.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using testing_images::random_image;
using testing_images::value_at;

std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

Tensor apply(const Transform& transform, const Tensor& image, const RandomKey& key = {}) {
  return transform.apply(image, key);
}

TEST(ToTensor, PutsChannelsFirstAndScalesToOne) {
  for (DType dtype : {DType::uint8, DType::float32})
    for (std::int64_t channels : {1, 3, 4}) {
      const Tensor image = random_image({4, 5, channels}, dtype);
      const Tensor result = apply(to_tensor(), image);
      ASSERT_EQ(result.info().str(), fmt::format("float32[{}, 4, 5]", channels));
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t y = 0; y < 4; ++y)
          for (std::int64_t x = 0; x < 5; ++x)
            EXPECT_EQ(value_at(result, c, y, x),
                      static_cast<float>(value_at(image, y, x, c)) / 255.0f);
    }
}

TEST(ToTensor, TakesAnImageWithoutChannelsForOneChannel) {
  EXPECT_EQ(apply(to_tensor(), Tensor::zeros({4, 5}, DType::uint8)).shape(), (Shape{1, 4, 5}));
}

TEST(ToTensor, WithScalingGivesTheBitsOfNormalizeAfterIt) {
  const std::vector<float> mean{0.49f, 0.48f, 0.45f}, deviation{0.25f, 0.24f, 0.26f};
  const Transform apart = compose({to_tensor(), normalize(mean, deviation)});
  for (DType dtype : {DType::uint8, DType::float32}) {
    const Tensor image = random_image({6, 7, 3}, dtype);
    EXPECT_EQ(values(apply(to_tensor(mean, deviation), image)), values(apply(apart, image)));
  }
}

TEST(Normalize, TakesAwayTheMeanAndDividesByTheDeviation) {
  const Tensor image = apply(to_tensor(), random_image({4, 5, 2}, DType::uint8));
  const Tensor result = apply(normalize({0.1f, 0.2f}, {0.5f, 0.3f}), image);
  for (std::int64_t i = 0; i < 40; ++i) {
    const float mean = i < 20 ? 0.1f : 0.2f, deviation = i < 20 ? 0.5f : 0.3f;
    EXPECT_NEAR(result.data<float>()[i], (image.data<float>()[i] - mean) / deviation, 1e-6);
  }
}

TEST(Transform, AWholeBatchGivesTheBitsOfItsSamples) {
  const Transform transform =
      compose({to_tensor({0.1f}, {0.3f}), normalize({0.5f}, {2.0f}), cast(DType::float64)});
  ASSERT_TRUE(transform.apply_batch);
  const Tensor images = random_image({3, 20, 3}, DType::uint8);  // three images of 4 x 5 x 3
  const Tensor batch = images.window({3, 4, 5, 3}, contiguous_strides({3, 4, 5, 3}), 0);
  std::vector<float> expected;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor one = batch.window({4, 5, 3}, contiguous_strides({4, 5, 3}), i * 60);
    for (float value : values(apply(transform, one))) expected.push_back(value);
  }
  EXPECT_EQ(values(transform.apply_batch(batch)), expected);
  EXPECT_FALSE(compose({to_tensor(), random_flip_left_right()}).apply_batch);
}

TEST(Cast, ConvertsValues) {
  const Tensor image = random_image({2, 2, 3}, DType::uint8);
  const Tensor result = apply(cast(DType::float32), image);
  EXPECT_EQ(result.dtype(), DType::float32);
  EXPECT_EQ(values(result), values(image));
}

TEST(Resize, ShortSideBecomesTheSizeAndTheOtherFollows) {
  EXPECT_EQ(apply(resize_short(8), Tensor::zeros({16, 30, 3})).shape(), (Shape{8, 15, 3}));
  EXPECT_EQ(apply(resize_short(8), Tensor::zeros({10, 4, 1})).shape(), (Shape{20, 8, 1}));
  EXPECT_EQ(apply(resize(3, 9), Tensor::zeros({10, 4, 1})).shape(), (Shape{3, 9, 1}));
}

TEST(CenterCrop, TakesTheMiddle) {
  const Tensor image = random_image({7, 8, 3}, DType::uint8);
  EXPECT_EQ(values(apply(center_crop(3, 4), image)), values(crop_image(image, 2, 2, 3, 4)));
}

TEST(RandomCrop, ReachesEveryWindowOfThePaddedImageAndNoOther) {
  const Tensor image = random_image({4, 5, 3}, DType::uint8);
  std::set<std::vector<float>> allowed, seen;
  for (std::int64_t top = -1; top <= 1; ++top)
    for (std::int64_t left = -1; left <= 1; ++left)
      allowed.insert(values(crop_image(image, top, left, 4, 5)));
  for (std::uint32_t step = 0; step < 300; ++step)
    seen.insert(values(apply(random_crop(4, 5, 1), image, {1, step, 0, 0})));
  EXPECT_EQ(seen, allowed);
}

TEST(RandomCrop, FillsWhatIsOutsideAndLeavesMasksBlack) {
  const Tensor image = random_image({4, 5, 3}, DType::uint8);
  const Transform crop = random_crop(12, 13, 4, {10.0F, 20.6F, 30.0F});
  const std::vector<float> whole = values(apply(crop, image, {1, 0, 0, 0}));
  EXPECT_EQ(std::vector<float>(whole.begin(), whole.begin() + 3), (std::vector<float>{10, 21, 30}));
  const Tensor mask = random_image({4, 5, 1}, DType::uint8);
  EXPECT_EQ(values(crop.apply_mask(mask, {1, 0, 0, 0})),
            values(apply(random_crop(12, 13, 4), mask, {1, 0, 0, 0})));
  EXPECT_EQ(values(apply(random_crop(6, 7, 1, {9.0F}), Tensor::zeros({4, 5, 2}))).front(), 9.0F);
  EXPECT_EQ(crop.description, "random_crop(12, 13, pad=4, fill=[10, 20.6, 30])");
  EXPECT_EQ(message_of([] { random_crop(4, 4, 1, {256.0F}); }),
            "random_crop: fill is 256, expected 0 to 255");
  EXPECT_EQ(message_of([&] {
              apply(random_crop(6, 6, 2, {1.0F, 2.0F}), image);
            }),
            "crop: 2 values to fill with, the image has 3 channels");
}

TEST(RandomFlip, FlipsAsOftenAsItShould) {
  const Tensor image = random_image({4, 5, 3}, DType::uint8);
  const auto flipped = values(flip_left_right(image));
  int count = 0;
  for (std::uint32_t step = 0; step < 1000; ++step)
    count += values(apply(random_flip_left_right(0.3), image, {1, step, 0, 0})) == flipped;
  EXPECT_NEAR(count, 300, 60);
  EXPECT_EQ(values(apply(random_flip_top_bottom(1.0), image)), values(flip_top_bottom(image)));
  EXPECT_EQ(values(apply(random_flip_top_bottom(0.0), image)), values(image));
}

TEST(RandomResizedCrop, OfTheWholeAreaAndRatioIsTheImage) {
  const Tensor image = random_image({6, 6, 3}, DType::uint8);
  EXPECT_EQ(values(apply(random_resized_crop(6, 6, 1, 1, 1, 1), image)), values(image));
}

TEST(RandomResizedCrop, FallsBackToTheMiddleWhenNoWindowFits) {
  const Tensor image = random_image({4, 40, 3}, DType::uint8);
  EXPECT_EQ(values(apply(random_resized_crop(4, 4, 1, 1, 1, 1), image)),
            values(crop_image(image, 0, 18, 4, 4)));
}

TEST(RandomResizedCrop, GivesTheSizeAskedForFromAnyImage) {
  for (std::uint32_t step = 0; step < 50; ++step)
    for (Shape shape : {Shape{1, 1, 3}, Shape{3, 50, 3}, Shape{20, 9, 1}}) {
      const Tensor result =
          apply(random_resized_crop(7, 5), random_image(shape, DType::uint8), {2, step, 0, 0});
      EXPECT_EQ(result.shape(), (Shape{7, 5, shape[2]}));
    }
}

std::vector<Transform> random_transforms() {
  return {random_crop(10, 10, 2),   random_resized_crop(10, 10),
          random_flip_left_right(), random_flip_top_bottom(),
          random_rotation(30),      random_color_jitter(0.3, 0.3, 0.3, 0.2)};
}

TEST(Transform, TheSameKeyGivesTheSameBitsAndOtherKeysOthers) {
  const Tensor image = random_image({12, 12, 3}, DType::uint8);
  for (const Transform& transform : random_transforms()) {
    std::set<std::vector<float>> seen;
    for (std::uint32_t i = 0; i < 20; ++i) {
      const RandomKey key{1, i, 2, 3 * i};
      const auto result = values(apply(transform, image, key));
      EXPECT_EQ(result, values(apply(transform, image, key))) << transform.description;
      seen.insert(result);
    }
    EXPECT_GE(seen.size(), 2u) << transform.description;
  }
}

TEST(Transform, LeavesItsInputAsItWas) {
  const Tensor image = random_image({12, 12, 3}, DType::uint8);
  const auto before = values(image);
  for (const Transform& transform : random_transforms()) apply(transform, image, {4, 5, 6, 7});
  EXPECT_EQ(values(image), before);
}

TEST(Compose, GivesEachTransformWordsOfItsOwn) {
  const Tensor image = random_image({12, 12, 3}, DType::uint8);
  const Transform first = random_crop(12, 12, 4), second = random_rotation(90);
  const Transform both = compose({first, second});
  EXPECT_EQ(both.uses, first.uses + second.uses);
  RandomKey key{1, 2, 3, 40};
  const Tensor half = apply(first, image, key);
  RandomKey later = key;
  later.use += first.uses;
  EXPECT_EQ(values(apply(both, image, key)), values(apply(second, half, later)));
}

TEST(Compose, DescribesWhatItDoes) {
  EXPECT_EQ(compose({random_crop(32, 32, 4), random_flip_left_right(), to_tensor(),
                     normalize({0.5f}, {0.25f})})
                .description,
            "random_crop(32, 32, pad=4), random_flip_left_right(p=0.5), to_tensor, "
            "normalize(mean=[0.5], deviation=[0.25])");
  EXPECT_EQ(compose({}).apply(Tensor::zeros({2}), {}).shape(), (Shape{2}));
}

TEST(Transform, RefusesWrongArgumentsAtOnce) {
  EXPECT_EQ(message_of([] { normalize({0.5f}, {0.0f}); }),
            "normalize: a deviation is 0, expected above 0");
  EXPECT_EQ(message_of([] {
              to_tensor({0.5f, 0.5f}, {1.0f});
            }),
            "to_tensor: 2 means and 1 deviations, expected as many of each, at least 1");
  EXPECT_EQ(message_of([] { resize(0, 4); }), "resize: height is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { random_crop(4, 4, -1); }),
            "random_crop: pad is -1, expected 0 or more");
  EXPECT_EQ(message_of([] { random_flip_left_right(1.5); }),
            "random_flip_left_right: p is 1.5, expected 0 to 1");
  EXPECT_EQ(message_of([] { random_rotation(NAN); }),
            "random_rotation: degrees is nan, expected 0 to 360");
  EXPECT_EQ(message_of([] { random_color_jitter(0, 0, 0, 0.6); }),
            "random_color_jitter: hue is 0.6, expected 0 to 0.5");
  EXPECT_EQ(message_of([] { random_resized_crop(4, 4, 0.5, 0.2); }),
            "random_resized_crop: min_area is 0.5, expected 0 to 0.2");
  EXPECT_EQ(message_of([] { random_resized_crop(4, 4, 0.1, 0.2, 2, 1); }),
            "random_resized_crop: ratios are 2 to 1, expected above 0 and in order");
}

TEST(Transform, RefusesWrongImagesWhenApplied) {
  EXPECT_EQ(message_of([] {
              apply(center_crop(8, 8), Tensor::zeros({5, 9, 3}));
            }),
            "center_crop: the image is 5 x 9, the crop 8 x 8");
  EXPECT_EQ(message_of([] {
              apply(random_crop(8, 8, 1), Tensor::zeros({5, 9, 3}));
            }),
            "random_crop: the image is 7 x 11, the crop 8 x 8");
  EXPECT_EQ(message_of([] {
              apply(to_tensor(), Tensor::zeros({5, 9, 3}, DType::int32));
            }),
            "to_tensor: got int32[5, 9, 3], expected an image: uint8 or float32 [H, W, C]");
  EXPECT_EQ(message_of([] {
              apply(normalize({1, 2}, {1, 2}), Tensor::zeros({3, 4, 4}));
            }),
            "normalize: the image has 3 channels, there are 2 means");
  EXPECT_EQ(message_of([] {
              apply(normalize({1}, {2}), Tensor::zeros({3, 4}));
            }),
            "normalize: got float32[3, 4], expected float32 [C, H, W]");
}

}  // namespace
}  // namespace lockstep::data
