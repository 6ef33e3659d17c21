// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/masks.h"
#include "lockstep/data/image.h"

namespace lockstep::data {
namespace {

Shape with_channel(const Tensor& mask) { return {mask.shape(0), mask.shape(1), 1}; }

Tensor reshaped(const Tensor& tensor, const Shape& shape) {
  const Tensor dense = tensor.contiguous();
  return dense.window(shape, contiguous_strides(shape), dense.offset());
}

void check_pair(const std::vector<Tensor>& fields) {
  if (fields.size() < 2)
    throw InvalidArgument("an image and a mask are needed, there are {} fields", fields.size());
  const Tensor &image = fields[0], &mask = fields[1];
  check_image("image", image);
  if (mask.rank() != 2 && !(mask.rank() == 3 && mask.shape(2) == 1))
    throw InvalidArgument("the mask is {}, expected [H, W] or [H, W, 1]", mask.info().str());
  if (mask.shape(0) != image.shape(0) || mask.shape(1) != image.shape(1))
    throw InvalidArgument("the image is {} x {}, its mask {} x {}", image.shape(0), image.shape(1),
                          mask.shape(0), mask.shape(1));
}

struct Joint {
  Transform both, image, mask;

  std::vector<Tensor> apply(std::vector<Tensor> fields, RandomKey key) const {
    check_pair(fields);
    const bool is_flat = fields[1].rank() == 2;
    if (is_flat) fields[1] = reshaped(fields[1], with_channel(fields[1]));
    if (both.apply) {
      fields[0] = both.apply(fields[0], key);
      fields[1] = detail::apply_to_mask(both, fields[1], key);
    }
    if (is_flat) fields[1] = reshaped(fields[1], {fields[1].shape(0), fields[1].shape(1)});
    key.use += both.uses;
    if (image.apply) fields[0] = image.apply(fields[0], key);
    key.use += image.uses;
    if (mask.apply) fields[1] = mask.apply(fields[1], key);
    return fields;
  }
};

}  // namespace

Transform joint(const Transform& both, const Transform& image, const Transform& mask) {
  Transform result;
  result.description = fmt::format("joint([{}], image=[{}], mask=[{}])", both.description,
                                   image.description, mask.description);
  result.uses = both.uses + image.uses + mask.uses;
  result.apply = [](const Tensor&, const RandomKey&) -> Tensor {
    throw InvalidArgument("joint: an image without its mask");
  };
  result.apply_fields = [joint = Joint{both, image, mask}](
                            std::vector<Tensor> fields, const RandomKey& key, std::int64_t sample) {
    try {
      return joint.apply(std::move(fields), key);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("joint: sample {}: {}", sample, error.what());
    }
  };
  return result;
}

}  // namespace lockstep::data
