// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/recipe.h"

#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/loss.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/recipes/model_recipes.h"

namespace lockstep::recipes {
namespace {

Shape with_batch(std::int64_t batch, Shape sample) {
  sample.insert(0, batch);
  return sample;
}

}  // namespace

nn::BlockPtr Recipe::net_with(double dropped) const {
  if (recommender) return recommender(sizes);
  return sized_model ? sized_model(size, dropped, classes) : model(dropped, classes);
}

Recipe with_size(Recipe recipe, const NetSize& size) {
  if (size.width == 0 && size.blocks == 0) return recipe;
  if (!recipe.has_sizes())
    throw InvalidArgument("{}: has one size; those with others: {}", recipe.name,
                          fmt::join(sized_recipe_names(), ", "));
  if (size.width > 0) recipe.size.width = size.width;
  if (size.blocks > 0) recipe.size.blocks = size.blocks;
  if (recipe.size.width % recipe.head_width != 0)
    throw InvalidArgument("{}: a width of {}, expected a multiple of {}, the width of a head",
                          recipe.name, recipe.size.width, recipe.head_width);
  return recipe;
}

std::vector<TensorInfo> Recipe::fields(std::int64_t batch) const {
  if (sample_fields.empty())
    return {{with_batch(batch, sample_shape), input_dtype, {}},
            {with_batch(batch, label_shape), DType::int64, {}}};
  std::vector<TensorInfo> infos;
  for (const SampleField& field : sample_fields)
    infos.push_back({with_batch(batch, field.shape), field.dtype, {}});
  return infos;
}

std::vector<TensorInfo> Recipe::inputs(std::int64_t batch) const {
  const std::vector<TensorInfo> infos = fields(batch);
  return train::inputs_of(train::resolve_fields(roles(), infos.size()), infos);
}

train::FieldRoles Recipe::roles() const {
  train::FieldRoles roles;
  for (const SampleField& field : sample_fields) roles.push_back(field.use);
  return roles;
}

std::vector<std::shared_ptr<nn::Metric>> Recipe::metrics() const {
  if (metric.name.empty()) return {};
  return {nn::metric(metric.name)};
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : all_recipes()) names.push_back(recipe.name);
  return names;
}

std::vector<std::string> sized_recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : all_recipes())
    if (recipe.has_sizes()) names.push_back(recipe.name);
  return names;
}

const Recipe& find_recipe(std::string_view name) {
  for (const Recipe& recipe : all_recipes())
    if (recipe.name == name) return recipe;
  for (const Recipe& recipe : model_recipes())
    if (recipe.name == name) return recipe;
  throw NotFound("recipe: there is no '{}' (there are: {})", name, fmt::join(recipe_names(), ", "));
}

train::LossFunction recipe_loss() {
  return {[](const Tensor& output, const Tensor& label) {
            return mean(softmax_cross_entropy(output, label));
          },
          [](const Tensor& output, const Tensor& label) {
            return nn::SoftmaxCrossEntropyLoss().classes(output, label);
          }};
}

}  // namespace lockstep::recipes
