// SPDX-License-Identifier: Apache-2.0
// The recipes' models as blocks give the bits that the functions they replace give.
#include <gtest/gtest.h>

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/nn/models/recipes.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

namespace models = nn::models;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string replaced(const std::string& name, const std::string& from, const std::string& to) {
  return name.substr(0, name.size() - from.size()) + to;
}

// The block's name of a parameter.
std::string block_name(const std::string& name, const nn::Block& block) {
  const std::pair<const char*, const char*> renamed[] = {{"weight_ih_l0", "l0_i2h_weight"},
                                                         {"weight_hh_l0", "l0_h2h_weight"},
                                                         {"bias_ih_l0", "l0_i2h_bias"},
                                                         {"bias_hh_l0", "l0_h2h_bias"}};
  for (const auto& [from, to] : renamed)
    if (ends_with(name, from)) return replaced(name, from, to);
  const bool is_weight = ends_with(name, "weight");
  const std::string norm =
      replaced(name, is_weight ? "weight" : "bias", is_weight ? "gamma" : "beta");
  for (const auto& named : block.parameters())
    if (named.name == norm) return norm;
  return name;
}

class BlockSource final : public ParameterSource {
 public:
  explicit BlockSource(const nn::Block& block) : block_(block) {}
  Tensor get(const std::string& name, const Shape& shape, const Init&) override {
    const Tensor value = block_.parameter(block_name(name, block_)).data();
    EXPECT_EQ(value.shape(), shape) << name;
    ++count;
    return value;
  }
  std::size_t count = 0;

 private:
  const nn::Block& block_;
};

void expect_same_logits(const char* recipe_name, const nn::BlockPtr& block) {
  const Recipe& recipe = find_recipe(recipe_name);
  Shape shape = recipe.sample_shape;
  shape.insert(0, 2);
  Tensor x = random_indices(shape, 1, 0, std::max<std::int64_t>(recipe.input_range, 1));
  if (recipe.input_range == 0) {
    x = Tensor::empty(shape);
    x.assign(random_tensor(shape, 1));
  }
  block->complete_shapes({x.info()});
  block->initialize(nn::init::uniform(0.1), 3);
  for (const auto& named : block->parameters("bias|beta|gamma"))
    named.parameter.set_data(random_tensor(named.parameter.shape(), 7));
  BlockSource source(*block);
  const autograd::ModeScope train(true);
  const std::vector<float> want = recipe.forward(source, x).to_vector<float>();
  const std::vector<float> got = (*block)(x).to_vector<float>();
  EXPECT_EQ(got, want);
  std::size_t trainable = 0;
  for (const auto& named : block->parameters()) trainable += named.parameter.options().trainable;
  EXPECT_EQ(trainable, source.count);
}

TEST(RecipeModels, GiveTheBitsOfTheFunctions) {
  expect_same_logits("mnist-mlp", models::mlp());
  expect_same_logits("mnist-lenet", models::lenet());
  expect_same_logits("cifar-cnn", models::cifar_cnn());
  expect_same_logits("cifar-resnet18", models::cifar_resnet18());
  expect_same_logits("text-lstm", models::lstm_classifier());
  expect_same_logits("char-gpt", models::gpt());
}

}  // namespace
}  // namespace lockstep::testing
