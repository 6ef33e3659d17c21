// SPDX-License-Identifier: Apache-2.0
// Loss and gradients of the recipes against PyTorch's from the same weights and data, which
// bench/peers/step_peer.py --dump has left in the folder LOCKSTEP_RECIPES.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/graph/executable.h"
#include "lockstep/io/npy.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/train/compiled_step.h"

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

// Hands out the dumped weights in float64, as leaves of the tape.
class DumpedSource final : public ParameterSource {
 public:
  explicit DumpedSource(const Dump& dump) : dump_(dump) {}
  Tensor get(const std::string& name, const Shape&, const Init&) override {
    leaves.push_back(cast(dump_.read("weight." + name), DType::float64));
    autograd::attach_grad(leaves.back());
    return leaves.back();
  }
  std::vector<Tensor> leaves;

 private:
  const Dump& dump_;
};

class Recipes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!dump_.there()) GTEST_SKIP() << "PyTorch left nothing in " << dump_.folder;
    traced_ = trace_recipe(find_recipe(GetParam()), dump_.manifest["batch"]);
    inputs_ = {dump_.read("input"), dump_.read("label")};
    for (const std::string& name : traced_.names) inputs_.push_back(dump_.read("weight." + name));
    std::vector<std::size_t> wrt(traced_.names.size());
    std::iota(wrt.begin(), wrt.end(), std::size_t{2});
    gradients_ = differentiate(traced_.graph, 0, wrt);
  }

  // Outputs are the loss and the gradients.
  void expect_equal(const std::vector<Tensor>& outputs, double tolerance) {
    const double loss = dump_.manifest["loss"];
    EXPECT_NEAR(outputs[0].item(), loss, tolerance * loss);
    for (std::size_t i = 0; i < traced_.names.size(); ++i) {
      const Tensor want = dump_.read("gradient." + traced_.names[i]);
      ASSERT_EQ(outputs[1 + i].shape(), want.shape()) << traced_.names[i];
      EXPECT_LT(relative_difference(outputs[1 + i], want), tolerance) << traced_.names[i];
    }
  }

  Dump dump_{GetParam()};
  TracedRecipe traced_;
  Graph gradients_;
  std::vector<Tensor> inputs_;
};

TEST_P(Recipes, HaveTheParametersThatPyTorchsModelHas) {
  std::vector<std::string> theirs;
  for (const auto& [name, shape] : dump_.manifest["parameters"].items()) theirs.push_back(name);
  std::vector<std::string> ours = traced_.names;
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  EXPECT_EQ(ours, theirs);
}

TEST_P(Recipes, GivePyTorchsLossAndGradientsEagerly) {
  expect_equal(interpret(gradients_, inputs_), kFloatTolerance);
}

TEST_P(Recipes, GivePyTorchsLossAndGradientsCompiled) {
  expect_equal(Executable::compile(gradients_).run(inputs_), kFloatTolerance);
}

TEST_P(Recipes, GivePyTorchsLossAndGradientsOnTheTapeInFloat64) {
  const Recipe& recipe = find_recipe(GetParam());
  const bool images = recipe.input_dtype == DType::float32;
  const Tensor data = images ? cast(inputs_[0], DType::float64) : inputs_[0];
  DumpedSource source(dump_);
  std::vector<Tensor> outputs(1);
  {
    const autograd::RecordScope record;
    outputs[0] = recipe_loss(recipe, recipe.forward(source, data), inputs_[1]);
  }
  autograd::backward(outputs[0]);
  for (const Tensor& leaf : source.leaves) outputs.push_back(autograd::gradient(leaf));
  expect_equal(outputs, kDoubleTolerance);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Recipe& recipe : recipes()) list.emplace_back(recipe.name);
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
