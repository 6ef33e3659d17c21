// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/predict_input.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/codec.h"
#include "lockstep/data/idx.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::cli {
namespace {

// Grey as television has it (ITU-R BT.601).
Tensor to_grey(const Tensor& image) {
  const Tensor shares = Tensor::from(std::vector<float>{0.299F, 0.587F, 0.114F}, {3});
  return sum(multiply(cast(image, DType::float32), shares), {2}, true);
}

// [H, W, C] of 0 to 255 in the recipe's size and channels, then as in testing.
Tensor image_batch(const train::Recipe& recipe, Tensor image, const std::string& name) {
  const Shape& wanted = recipe.sample_shape;
  if (wanted[0] == 1 && image.shape(2) == 3) image = to_grey(image);
  if (image.shape(2) != wanted[0])
    throw InvalidArgument("{}: has {} channels, {} reads {}", name, image.shape(2), recipe.name,
                          wanted[0]);
  if (image.shape(0) != wanted[1] || image.shape(1) != wanted[2])
    image = data::resize(wanted[1], wanted[2]).apply(image, {});
  return expand_dims(recipe.test_transform().apply(image, {}), 0);
}

bool is_idx(const std::string& bytes) { return bytes.size() > 4 && bytes[0] == 0 && bytes[1] == 0; }

std::vector<PredictInput> idx_inputs(const train::Recipe& recipe, const std::string& bytes,
                                     const std::string& file) {
  const Tensor images = data::parse_idx(bytes, file);
  if (images.rank() != 3)
    throw InvalidArgument("{}: holds {}, expected images", file, images.info().str());
  std::vector<PredictInput> inputs;
  for (std::int64_t i = 0; i < images.shape(0); ++i) {
    const Tensor image = transpose(slice_axis(images, 0, i, i + 1), {1, 2, 0}).contiguous();
    const std::string name = fmt::format("{}[{}]", file, i);
    inputs.push_back({name, image_batch(recipe, image, name)});
  }
  return inputs;
}

Tensor text_batch(const TrainedModel& model, const std::string& text) {
  const std::vector<std::int64_t> numbers = require_codec(model)->encode(text);
  return Tensor::from(numbers, {1, static_cast<std::int64_t>(numbers.size())});
}

}  // namespace

std::vector<PredictInput> read_inputs(const TrainedModel& model, const std::string& file) {
  const std::string bytes = read_file(file);
  if (model.recipe.task == train::Task::texts) return {{file, text_batch(model, bytes)}};
  if (is_idx(bytes)) return idx_inputs(model.recipe, bytes, file);
  return {{file, image_batch(model.recipe, data::decode_image(bytes, file), file)}};
}

train::TextCodecPtr require_codec(const TrainedModel& model) {
  if (model.codec) return model.codec;
  throw InvalidArgument("predict: this run was trained on generated data and knows no text");
}

}  // namespace lockstep::cli
