// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/data/image.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/transform.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::message_of;

// An image whose one channel says where its pixels were, and a mask with the same numbers.
Fields numbered(std::int64_t height, std::int64_t width, bool flat = true) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(height * width));
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  const Tensor image = Tensor::from(values, {height, width, 1});
  return {image, flat ? Tensor::from(values, {height, width}) : image.copy()};
}

RandomKey key(std::uint32_t step) { return {7, step, 0, 0}; }

TEST(Joint, CropsAndFlipsAreTheSameForImageAndMask) {
  const Transform both = joint(compose({random_crop(6, 5, 1), random_flip_left_right(),
                                        random_flip_top_bottom(), center_crop(4, 4)}));
  std::vector<std::uint8_t> first;
  bool differs = false;
  for (std::uint32_t step = 0; step < 50; ++step) {
    const Fields changed = both.apply_fields(numbered(8, 9), key(step), 0);
    EXPECT_EQ(changed[0].shape(), (Shape{4, 4, 1}));
    EXPECT_EQ(changed[1].shape(), (Shape{4, 4}));
    const auto values = changed[0].to_vector<std::uint8_t>();
    EXPECT_EQ(values, changed[1].to_vector<std::uint8_t>());
    if (step == 0) first = values;
    differs = differs || values != first;
  }
  EXPECT_TRUE(differs);
}

TEST(Joint, AResizedMaskHasNoValueThatItHadNotBefore) {
  Fields sample = numbered(8, 8, false);
  for (std::int64_t i = 0; i < 64; ++i) sample[1].data<std::uint8_t>()[i] = i % 8 < 4 ? 0 : 200;
  for (const Transform& both :
       {resize(5, 13), resize_short(11), random_resized_crop(7, 7), random_rotation(180)})
    for (std::uint32_t step = 0; step < 20; ++step) {
      const Fields changed = joint(both).apply_fields(sample, key(step), 0);
      EXPECT_EQ(changed[0].shape(0), changed[1].shape(0));
      EXPECT_EQ(changed[0].shape(1), changed[1].shape(1));
      for (const std::uint8_t value : changed[1].to_vector<std::uint8_t>())
        EXPECT_TRUE(value == 0 || value == 200) << both.description;
    }
}

TEST(Joint, AMaskThatIsEnlargedRepeatsItsPixels) {
  const Tensor mask = Tensor::from(std::vector<std::uint8_t>{1, 2, 3, 4}, {2, 2, 1});
  EXPECT_EQ(resize_mask(mask, 4, 2).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(resize_mask(mask, 1, 1).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{4}));
}

TEST(Joint, AQuarterTurnMovesAMaskAsItMovesAnImage) {
  const Fields sample = numbered(5, 5, false);
  EXPECT_EQ(rotate_mask(sample[1], 90).to_vector<std::uint8_t>(),
            rotate_image(sample[0], 90).to_vector<std::uint8_t>());
}

TEST(Joint, ColoursAndScalesAreTheImagesAlone) {
  const Transform both =
      joint(compose({random_flip_left_right(), random_color_jitter(0.5, 0.5, 0.0)}), to_tensor(),
            cast(DType::int64));
  const Fields changed = both.apply_fields(numbered(4, 4), key(1), 0);
  EXPECT_EQ(changed[0].info().str(), "float32[1, 4, 4]");
  EXPECT_EQ(changed[1].info().str(), "int64[4, 4]");
  EXPECT_EQ(joint(compose({random_flip_left_right()}))
                .apply_fields(numbered(4, 4), key(1), 0)[1]
                .to_vector<std::uint8_t>(),
            [&] {
              std::vector<std::uint8_t> values;
              for (const std::int64_t v : changed[1].to_vector<std::int64_t>())
                values.push_back(static_cast<std::uint8_t>(v));
              return values;
            }());
}

// The second sample's mask has lost a row.
class Uneven final : public Dataset {
 public:
  std::int64_t size() const override { return 3; }
  Fields sample(std::int64_t index) const override {
    Fields fields = numbered(6, 6);
    if (index == 1) fields[1] = numbered(5, 6)[1];
    return fields;
  }
};

TEST(Joint, AMaskOfAnotherSizeIsOneErrorWithTheSamplesNumber) {
  const Transform both = joint(random_crop(4, 4));
  const std::vector<std::int64_t> all{0, 1, 2}, good{0, 2};
  EXPECT_EQ(message_of([&] { load_batch(Uneven(), all, both); }),
            "joint: sample 1: the image is 6 x 6, its mask 5 x 6");
  EXPECT_EQ(load_batch(Uneven(), good, both, key(3))[1].shape(), (Shape{2, 4, 4}));
}

TEST(Joint, RefusesWhatHasNoMask) {
  EXPECT_EQ(message_of([] { joint({}).apply_fields({numbered(2, 2)[0]}, {}, 5); }),
            "joint: sample 5: an image and a mask are needed, there are 1 fields");
  EXPECT_EQ(message_of([] {
              joint({}).apply_fields({numbered(2, 2)[0], Tensor::zeros({2, 2, 3})}, {}, 5);
            }),
            "joint: sample 5: the mask is float32[2, 2, 3], expected [H, W] or [H, W, 1]");
  EXPECT_EQ(message_of([] { compose({joint(random_crop(4, 4))}); }),
            "compose: joint([random_crop(4, 4, pad=0)], image=[], mask=[]) changes several fields; "
            "compose what it is made of");
}

}  // namespace
}  // namespace lockstep::data
