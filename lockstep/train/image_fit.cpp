// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/image_fit.h"

#include "lockstep/base/error.h"
#include "lockstep/data/image.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::train {
namespace {

// Grey as television has it (ITU-R BT.601).
Tensor to_grey(const Tensor& image) {
  const Tensor shares = Tensor::from(std::vector<float>{0.299F, 0.587F, 0.114F}, {3});
  const Tensor grey = sum(multiply(cast(image, DType::float32), shares), {2}, true);
  return cast(grey + 0.5, DType::uint8);
}

Tensor to_channels(const Tensor& image, std::int64_t channels, const std::string& name) {
  const std::int64_t has = image.shape(2);
  if (has == channels) return image;
  if (has == 3 && channels == 1) return to_grey(image);
  if (has == 1 && channels == 3) return concat({image, image, image}, 2);
  throw InvalidArgument("{}: has {} channels, expected 1 or 3", name, has);
}

class FittedImages final : public data::Dataset {
 public:
  FittedImages(const Recipe& recipe, data::ImageFolder folder)
      : recipe_(recipe), folder_(std::move(folder)) {}
  std::int64_t size() const override { return folder_.size(); }
  std::vector<std::string> class_names() const override { return folder_.class_names(); }
  data::Fields sample(std::int64_t index) const override {
    data::Fields fields = decode(index);
    fields[0] = fit_image(recipe_, fields[0], folder_.path(index));
    return fields;
  }

 private:
  data::Fields decode(std::int64_t index) const {
    try {
      return folder_.sample(index);
    } catch (const Corrupt& error) {
      throw Corrupt("{}; --skip-bad leaves such images out", error.what());
    }
  }

  Recipe recipe_;
  data::ImageFolder folder_;
};

}  // namespace

Tensor fit_image(const Recipe& recipe, const Tensor& image, const std::string& name) {
  const Shape& net = recipe.sample_shape;
  const Tensor result = to_channels(image, net[0], name);
  if (result.shape(0) == net[1] && result.shape(1) == net[2]) return result;
  return data::resize_image(result, net[1], net[2]);
}

data::DatasetPtr open_image_folder(const Recipe& recipe, const std::string& folder, bool skip_bad,
                                   const std::function<void(const std::string&)>& warn) {
  data::ImageFolder images(folder, {.skip_bad = skip_bad});
  if (images.class_names().size() < 2)
    throw InvalidArgument("{}: has the class {} alone, expected 2 classes or more", folder,
                          images.class_names().front());
  for (const std::string& line : images.skipped())
    if (warn) warn("left out: " + line);
  return std::make_shared<FittedImages>(recipe, std::move(images));
}

}  // namespace lockstep::train
