// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/file.h"
#include "lockstep/graph/differentiate.h"
#include "lockstep/io/npy.h"
#include "lockstep/train/compiled_step.h"

// Loss and gradients of each recipe against PyTorch's, from the same weights on the same batch.
namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 1e-4;

bool have_torch() {
  return std::system("/usr/bin/python3 -c 'import torch' > /dev/null 2>&1") == 0;
}

double relative_error(const Tensor& got, const Tensor& expected) {
  const std::vector<double> a = got.to_vector<double>();
  const std::vector<double> b = expected.to_vector<double>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-12);
}

class RecipeOracle : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!have_torch()) GTEST_SKIP() << "python3-torch is not installed";
    folder_ = fs::temp_directory_path() / fmt::format("oracle_{}_{}", GetParam(), ::getpid());
    const std::string command =
        fmt::format("/usr/bin/python3 {}/bench/peers/step_peer.py --model {} --dump {} --batch {}",
                    LOCKSTEP_SOURCE_DIR, GetParam(), folder_.string(), batch());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  void TearDown() override { fs::remove_all(folder_); }

  // Enough for the kernels that a real batch uses.
  static int batch() { return GetParam() == "char-gpt" ? 4 : 16; }

  Tensor load(const std::string& name) const {
    return load_npy((folder_ / GetParam() / (name + ".npy")).string());
  }

  fs::path folder_;
};

TEST_P(RecipeOracle, LossAndGradientsEqualPyTorchs) {
  const auto manifest =
      nlohmann::json::parse(read_file((folder_ / GetParam() / "manifest.json").string()));
  const TracedRecipe traced = trace_recipe(find_recipe(GetParam()), batch());
  ASSERT_EQ(traced.names.size(), manifest["parameters"].size());
  std::vector<std::size_t> wrt(traced.names.size());
  std::iota(wrt.begin(), wrt.end(), 2);
  Executable executable = Executable::compile(differentiate(traced.graph, 0, wrt));
  std::vector<Tensor> inputs{load("input"), load("label")};
  for (const std::string& name : traced.names) inputs.push_back(load("weight." + name));
  const std::vector<Tensor> outputs = executable.run(inputs);
  const double loss = manifest["loss"];
  EXPECT_NEAR(outputs[0].item(), loss, kTolerance * std::abs(loss));
  for (std::size_t i = 0; i < traced.names.size(); ++i)
    EXPECT_LT(relative_error(outputs[1 + i], load("gradient." + traced.names[i])), kTolerance)
        << traced.names[i];
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Recipe& recipe : recipes()) all.emplace_back(recipe.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Recipes, RecipeOracle, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep
