// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/model_input.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/codec.h"
#include "lockstep/data/idx.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/recipes/image_fit.h"

namespace lockstep::recipes {
namespace {

Tensor image_batch(const Recipe& recipe, const Tensor& image, const std::string& name) {
  return expand_dims(recipe.test_transform().apply(fit_image(recipe, image, name), {}), 0);
}

bool is_idx(const std::string& bytes) { return bytes.size() > 4 && bytes[0] == 0 && bytes[1] == 0; }

std::vector<ModelInput> idx_inputs(const Recipe& recipe, const std::string& file,
                                   std::int64_t max_inflated) {
  const Tensor images = data::read_idx(file, max_inflated);
  if (images.rank() != 3)
    throw InvalidArgument("{}: holds {}, expected images", file, images.info().str());
  std::vector<ModelInput> inputs;
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

std::vector<ModelInput> read_inputs(const TrainedModel& model, const std::string& file) {
  const std::string bytes = read_file(file);
  if (model.recipe.task == Task::texts) return {{file, text_batch(model, bytes)}};
  if (is_idx(bytes)) return idx_inputs(model.recipe, file, model.config.max_inflated);
  const data::ImageOptions image{.max_pixels = model.config.max_pixels};
  return {{file, image_batch(model.recipe, data::decode_image(bytes, file, image), file)}};
}

TextCodecPtr require_codec(const TrainedModel& model) {
  if (model.codec) return model.codec;
  throw InvalidArgument("predict: this run was trained on generated data and knows no text");
}

}  // namespace lockstep::recipes
