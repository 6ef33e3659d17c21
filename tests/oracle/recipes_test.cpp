// SPDX-License-Identifier: Apache-2.0
// Loss and gradients of the recipes against PyTorch's from the same weights and data, which
// bench/peers/step_peer.py --dump has left in the folder LOCKSTEP_RECIPES.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/executable.h"
#include "lockstep/graph/trace.h"
#include "lockstep/io/npy.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/recipes/recipe.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::testing {
namespace {

constexpr double kFloatTolerance = 1e-4;
constexpr double kDoubleTolerance = 1e-9;

struct Dump {
  std::filesystem::path folder;
  nlohmann::json manifest;

  explicit Dump(const std::string& model) {
    const char* root = std::getenv("LOCKSTEP_RECIPES");
    folder = std::filesystem::path(root == nullptr ? "." : root) / model;
    std::ifstream file(folder / "manifest.json");
    if (file) manifest = nlohmann::json::parse(file);
  }
  bool there() const { return !manifest.is_null(); }
  Tensor read(const std::string& name) const { return load_npy(folder / (name + ".npy")); }
};

double root_mean_square(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value * value;
  return std::sqrt(total / static_cast<double>(values.size()));
}

// The size of the difference against the size of what is expected, both as root mean squares.
double relative_difference(const Tensor& got, const Tensor& want) {
  const std::vector<double> a = got.to_vector<double>();
  const std::vector<double> b = want.to_vector<double>();
  std::vector<double> difference(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return root_mean_square(difference) / std::max(root_mean_square(b), 1e-12);
}

// PyTorch's name of a parameter: its norms and recurrent layers call theirs differently.
std::string pytorch_name(const std::string& name) {
  static const std::pair<std::string, std::string> kEnds[] = {{"gamma", "weight"},
                                                              {"beta", "bias"},
                                                              {"l0_i2h_weight", "weight_ih_l0"},
                                                              {"l0_h2h_weight", "weight_hh_l0"},
                                                              {"l0_i2h_bias", "bias_ih_l0"},
                                                              {"l0_h2h_bias", "bias_hh_l0"}};
  for (const auto& [ours, theirs] : kEnds)
    if (name.ends_with("." + ours)) return name.substr(0, name.size() - ours.size()) + theirs;
  return name;
}

class Recipes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!dump_.there()) GTEST_SKIP() << "PyTorch left nothing in " << dump_.folder;
    for (int i = 0; i < dump_.manifest["fields"].get<int>(); ++i)
      fields_.push_back(dump_.read(fmt::format("field{}", i)));
    net_ = recipe_.net_without_dropout();
    net_->initialize();
    step_ = train::trace_step(*net_, recipe_.loss(), data::infos_of(fields_), recipe_.roles());
    for (const auto& [name, parameter] : net_->parameters())
      if (parameter.options().trainable)
        parameter.set_data(dump_.read("weight." + pytorch_name(name)));
  }

  std::vector<Tensor> inputs() const {
    std::vector<Tensor> result = fields_;
    result.push_back(random_key(1));
    for (const auto& [name, parameter] : net_->parameters()) result.push_back(parameter.data());
    return result;
  }

  // The loss and the gradients among the step's outputs.
  void expect_equal(const std::vector<Tensor>& outputs) {
    expect_loss(outputs[0], kFloatTolerance);
    for (std::size_t i = 0; i < step_.trainable.size(); ++i)
      expect_gradient(step_.parameters[step_.trainable[i]].name, outputs[step_.gradient_output(i)],
                      kFloatTolerance);
    for (std::size_t t = 0; t < step_.tables.size(); ++t)
      expect_gradient(step_.parameters[step_.tables[t]].name, whole_gradient(t, outputs),
                      kFloatTolerance);
  }
  // Of a table: the rows of its lookups, which come after the gradients that are whole.
  Tensor whole_gradient(std::size_t table, const std::vector<Tensor>& outputs) const {
    const Tensor whole = Tensor::zeros(step_.parameters[step_.tables[table]].shape);
    const std::int64_t width = whole.shape()[1];
    for (std::size_t l = 0; l < step_.lookups.size(); ++l) {
      if (step_.lookups[l] != table) continue;
      const std::size_t ids = step_.gradient_output(step_.trainable.size()) + 2 * l;
      const std::vector<float> rows = outputs[ids + 1].to_vector<float>();
      auto from = rows.begin();
      for (const std::int64_t id : outputs[ids].to_vector<std::int64_t>())
        for (std::int64_t column = 0; column < width; ++column)
          whole.data<float>()[id * width + column] += *from++;
    }
    return whole;
  }
  void expect_loss(const Tensor& got, double tolerance) {
    const double loss = dump_.manifest["loss"];
    EXPECT_NEAR(got.item(), loss, tolerance * loss);
  }
  void expect_gradient(const std::string& name, const Tensor& got, double tolerance) {
    const Tensor want = dump_.read("gradient." + pytorch_name(name));
    ASSERT_EQ(got.shape(), want.shape()) << name;
    EXPECT_LT(relative_difference(got, want), tolerance) << name;
  }

  const recipes::Recipe& recipe_ = recipes::find_recipe(GetParam());
  Dump dump_{GetParam()};
  nn::BlockPtr net_;
  train::StepGraph step_;
  data::Fields fields_;  // inputs, then the label
};

TEST_P(Recipes, HaveTheParametersThatPyTorchsModelHas) {
  std::vector<std::string> ours, theirs;
  for (const auto& [name, shape] : dump_.manifest["parameters"].items()) theirs.push_back(name);
  for (const auto& places : {step_.trainable, step_.tables})
    for (const std::size_t i : places) ours.push_back(pytorch_name(step_.parameters[i].name));
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  EXPECT_EQ(ours, theirs);
}

TEST_P(Recipes, GivePyTorchsLossAndGradientsEagerly) {
  expect_equal(interpret(step_.graph, inputs()));
}

TEST_P(Recipes, GivePyTorchsLossAndGradientsCompiled) {
  expect_equal(Executable::compile(step_.graph).run(inputs()));
}

TEST_P(Recipes, GivePyTorchsLossAndGradientsOnTheTapeInFloat64) {
  net_->cast(DType::float64);
  data::Fields inputs;
  for (const Tensor& field : fields_)
    inputs.push_back(field.dtype() == DType::float32 ? cast(field, DType::float64) : field);
  const Tensor label = inputs.back();
  inputs.pop_back();
  Tensor loss;
  {
    const autograd::RecordScope record;
    loss = mean(recipe_.loss()((*net_)(inputs), {label}));
  }
  autograd::backward(loss);
  expect_loss(loss, kDoubleTolerance);
  for (const auto& [name, parameter] : net_->parameters())
    if (parameter.options().trainable) expect_gradient(name, parameter.grad(), kDoubleTolerance);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const std::string& name : recipes::recipe_names())
    if (name != "fashion-lenet" && name != "gpt-wide")  // mnist-lenet's and char-gpt's models
      list.push_back(name);
  return list;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Recipes, ::testing::ValuesIn(names()), test_name);

}  // namespace
}  // namespace lockstep::testing
