// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/foreign_names.h"

#include <gtest/gtest.h>

#include "lockstep/io/mxnet_params.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/nn/layers.h"
#include "tests/message.h"
#include "tests/nn/nets.h"
#include "tests/observe/folder.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::message_of;
using testing::TemporaryFolder;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using Names = std::vector<std::string>;

Names names_after(const Names& own, const Names& theirs) {
  std::vector<NamedParameter> parameters;
  for (const std::string& name : own) parameters.push_back({name, Parameter({1})});
  NamedTensors tensors;
  for (const std::string& name : theirs) tensors.emplace_back(name, Tensor::zeros({1}));
  Names names;
  for (const auto& [name, tensor] : with_own_names(parameters, tensors)) names.push_back(name);
  return names;
}

TEST(ForeignNames, NormsAndRecurrentLayersHaveOursForPyTorchs) {
  EXPECT_EQ(names_after({"bn.gamma", "bn.beta", "bn.running_mean", "bn.running_var"},
                        {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var",
                         "bn.num_batches_tracked"}),
            (Names{"bn.gamma", "bn.beta", "bn.running_mean", "bn.running_var"}));
  EXPECT_EQ(
      names_after(
          {"lstm.l0_i2h_weight", "lstm.l0_h2h_weight", "lstm.l12_i2h_bias", "lstm.r0_h2h_bias"},
          {"lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l12",
           "lstm.bias_hh_l0_reverse"}),
      (Names{"lstm.l0_i2h_weight", "lstm.l0_h2h_weight", "lstm.l12_i2h_bias", "lstm.r0_h2h_bias"}));
  EXPECT_EQ(
      names_after({"i2h_weight", "h2h_bias", "act.alpha"}, {"weight_ih", "bias_hh", "act.weight"}),
      (Names{"i2h_weight", "h2h_bias", "act.alpha"}));
  EXPECT_EQ(names_after({"attn.qkv.weight", "attn.proj.bias"},
                        {"attn.in_proj_weight", "attn.out_proj.bias"}),
            (Names{"attn.qkv.weight", "attn.proj.bias"}));
}

TEST(ForeignNames, ANameThatAParameterHasMeansThatOne) {
  EXPECT_EQ(names_after({"x.gamma", "x.weight"}, {"x.weight"}), Names{"x.weight"});
  EXPECT_EQ(names_after({"x.gamma"}, {"x.gamma", "x.weight"}), (Names{"x.gamma", "x.weight"}));
  EXPECT_EQ(names_after({"xgamma"}, {"xweight"}), Names{"xweight"});
  EXPECT_EQ(names_after({"module.x"}, {"module.x"}), Names{"module.x"});
  EXPECT_EQ(names_after({"x.num_batches_tracked"}, {"x.num_batches_tracked", "x.running_mean"}),
            (Names{"x.num_batches_tracked", "x.running_mean"}));
}

TEST(ForeignNames, WrappersAndMxnetsPrefixesAreTakenOff) {
  EXPECT_EQ(names_after({"fc.weight"}, {"module.fc.weight"}), Names{"fc.weight"});
  EXPECT_EQ(names_after({"fc.weight", "bn.gamma"},
                        {"module._orig_mod.fc.weight", "module._orig_mod.bn.weight"}),
            (Names{"fc.weight", "bn.gamma"}));
  EXPECT_EQ(names_after({"fc.weight", "bn.running_mean"}, {"arg:fc.weight", "aux:bn.moving_mean"}),
            (Names{"fc.weight", "bn.running_mean"}));
  // Not where only some have it, or two would become one.
  EXPECT_EQ(names_after({"a"}, {"module.a", "b"}), (Names{"module.a", "b"}));
  EXPECT_EQ(names_after({"a"}, {"arg:a", "aux:a"}), (Names{"arg:a", "aux:a"}));
}

class LoadForeign : public ::testing::Test {
 protected:
  static std::shared_ptr<Sequential> net() {
    return sequential(conv2d(4, 3), batch_norm(), relu(), flatten(), dense(2));
  }
  LoadForeign() {
    saved_->initialize(init::normal(1.0), 3);
    (*saved_)(x_);
  }
  // Its tensors as somebody else calls them.
  NamedTensors called(const std::function<std::string(std::string)>& other) const {
    NamedTensors tensors;
    for (const auto& [name, parameter] : saved_->parameters())
      tensors.emplace_back(other(name), parameter.data());
    return tensors;
  }
  void expect_loaded(const std::string& path) const {
    const auto loaded = net();
    const LoadReport report = loaded->load(path);
    EXPECT_EQ(report.names(LoadStatus::loaded).size(), 8u);
    EXPECT_EQ((*loaded)(x_).to_vector<float>(), (*saved_)(x_).to_vector<float>());
  }

  const TemporaryFolder folder_;
  const Tensor x_ = drawn({2, 3, 6, 6}, 1);
  const std::shared_ptr<Sequential> saved_ = net();
};

TEST_F(LoadForeign, AStateDictInSafetensorsLoadsByName) {
  io::Safetensors file{called([](const std::string& name) {
                         if (name == "1.gamma") return std::string("module.1.weight");
                         if (name == "1.beta") return std::string("module.1.bias");
                         return "module." + name;
                       }),
                       {{"format", "pt"}}};
  file.tensors.emplace_back("module.1.num_batches_tracked", Tensor::scalar(7, DType::int64));
  io::write_safetensors(folder_ / "net.safetensors", file);
  expect_loaded(folder_ / "net.safetensors");
}

TEST_F(LoadForeign, MxnetsParametersLoadByName) {
  io::write_mxnet_params(folder_ / "gluon.params", called([](std::string name) { return name; }));
  expect_loaded(folder_ / "gluon.params");
  io::write_mxnet_params(folder_ / "module.params", called([](const std::string& name) {
                           if (name == "1.running_mean") return std::string("aux:1.moving_mean");
                           return "arg:" + name;
                         }));
  expect_loaded(folder_ / "module.params");
}

TEST_F(LoadForeign, WhatDoesNotFitIsNamedAsTheFileDoes) {
  io::Safetensors file{called([](const std::string& name) {
                         return name == "4.bias" ? std::string("head.bias") : name;
                       }),
                       {}};
  io::write_safetensors(folder_ / "net.safetensors", file);
  const std::string message = message_of([&] { net()->load(folder_ / "net.safetensors"); });
  EXPECT_NE(message.find("7 of the block's 8 parameters fit; 1 is missing in the file; 1 in the "
                         "file is unexpected"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("head.bias"), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::nn
