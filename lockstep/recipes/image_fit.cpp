// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/image_fit.h"

#include "lockstep/base/error.h"
#include "lockstep/data/image.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::recipes {
namespace {

// Grey as television has it (ITU-R BT.601). Pixel by pixel: a large image in float32, several times
// over, would take gigabytes. In the order in which the op sum() adds three.
Tensor to_grey(const Tensor& image) {
  const Tensor dense = image.contiguous();
  Tensor grey = Tensor::empty({image.shape(0), image.shape(1), 1}, DType::uint8);
  const std::uint8_t* from = dense.data<std::uint8_t>();
  std::uint8_t* to = grey.data<std::uint8_t>();
  for (std::int64_t i = 0; i < grey.numel(); ++i, from += 3) {
    const float red = static_cast<float>(from[0]) * 0.299F;
    const float green = static_cast<float>(from[1]) * 0.587F;
    const float blue = static_cast<float>(from[2]) * 0.114F;
    to[i] = static_cast<std::uint8_t>(red + blue + green + 0.5F);
  }
  return grey;
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
  FittedImages(const Recipe& recipe, data::DatasetPtr set)
      : recipe_(recipe),
        set_(std::move(set)),
        folder_(dynamic_cast<const data::ImageFolder*>(set_.get())) {}
  std::int64_t size() const override { return set_->size(); }
  std::vector<std::string> class_names() const override { return set_->class_names(); }
  data::Fields sample(std::int64_t index) const override {
    data::Fields fields = decode(index);
    const std::string name = folder_ ? folder_->path(index) : fmt::format("image {}", index);
    fields[0] = fit_image(recipe_, fields[0], name);
    return fields;
  }

 private:
  data::Fields decode(std::int64_t index) const {
    try {
      return set_->sample(index);
    } catch (const Corrupt& error) {
      throw Corrupt("{}; --skip-bad leaves such images out", error.what());
    }
  }

  Recipe recipe_;
  data::DatasetPtr set_;
  const data::ImageFolder* folder_;  // the set, where it is one: its images have names
};

}  // namespace

Tensor fit_image(const Recipe& recipe, const Tensor& image, const std::string& name) {
  const Shape& net = recipe.sample_shape;
  const Tensor result = to_channels(image, net[0], name);
  if (result.shape(0) == net[1] && result.shape(1) == net[2]) return result;
  return data::resize_image(result, net[1], net[2]);
}

data::DatasetPtr fit_images(const Recipe& recipe, data::DatasetPtr set) {
  return std::make_shared<FittedImages>(recipe, std::move(set));
}

std::shared_ptr<const data::ImageFolder> open_image_folder(
    const std::string& folder, const data::ImageFolderOptions& options,
    const std::function<void(const std::string&)>& warn) {
  const auto opened = std::make_shared<const data::ImageFolder>(folder, options);
  const data::ImageFolder& images = *opened;
  if (images.class_names().size() < 2)
    throw InvalidArgument("{}: has the class {} alone, expected 2 classes or more", folder,
                          images.class_names().front());
  for (const std::string& line : images.skipped())
    if (warn) warn("left out: " + line);
  for (const std::string& name : images.empty_classes())
    if (warn) warn(fmt::format("{}: the class {} has no images", folder, name));
  return opened;
}

}  // namespace lockstep::recipes
