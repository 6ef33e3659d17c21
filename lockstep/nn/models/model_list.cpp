// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/nn/models/models.h"

namespace lockstep::nn::models {
namespace {

struct Entry {
  ModelInfo info;
  std::function<BlockPtr(const ModelOptions&)> make;
};

// Puts what was given into a model's own options, as far as they have a place for it.
template <class Options>
Options with(Options own, const ModelOptions& given) {
  if constexpr (requires { own.classes; }) own.classes = given.classes.value_or(own.classes);
  if constexpr (requires { own.vocabulary; })
    own.vocabulary = given.vocabulary.value_or(own.vocabulary);
  if constexpr (requires { own.dropout; }) own.dropout = given.dropout.value_or(own.dropout);
  return own;
}

TensorInfo image(std::int64_t channels, std::int64_t size) {
  return {Shape{channels, size, size}, DType::float32, {}};
}

TensorInfo tokens(std::int64_t length) { return {Shape{length}, DType::int64, {}}; }

// A model of the family that `factory` makes, with these options of its own.
template <class Options>
Entry entry(std::string name, std::string about, const TensorInfo& sample,
            BlockPtr (*factory)(const Options&), const Options& own) {
  return {{std::move(name), std::move(about), sample},
          [=](const ModelOptions& given) { return factory(with(own, given)); }};
}

using Entries = std::vector<Entry>;

void add_small(Entries& all) {
  all.push_back(entry("mlp", "two dense layers", {Shape{784}, DType::float32, {}}, mlp, {}));
  all.push_back(entry("lenet", "two convolutions and two dense layers", image(1, 28), lenet, {}));
  all.push_back(entry("cifar_cnn", "lenet with twice the channels", image(3, 32), cifar_cnn,
                      CnnOptions{.width = 64}));
}

void add_resnets(Entries& all, bool small_images) {
  for (const int version : {1, 2})
    for (const int layers : {18, 34, 50, 101, 152})
      all.push_back(entry(
          fmt::format("{}resnet{}_v{}", small_images ? "cifar_" : "", layers, version),
          fmt::format("residual network, {} layers{}{}", layers, version == 2 ? ", norm first" : "",
                      small_images ? ", for small images" : ""),
          image(3, small_images ? 32 : 224), resnet,
          ResNetOptions{.layers = layers,
                        .version = version,
                        .classes = small_images ? 10 : 1000,
                        .small_images = small_images}));
}

void add_vggs(Entries& all) {
  for (const bool batch_norm : {false, true})
    for (const int layers : {11, 13, 16, 19})
      all.push_back(
          entry(fmt::format("vgg{}{}", layers, batch_norm ? "_bn" : ""),
                fmt::format("VGG, {} layers{}", layers, batch_norm ? ", with batch norm" : ""),
                image(3, 224), vgg, VggOptions{.layers = layers, .batch_norm = batch_norm}));
}

void add_mobilenets(Entries& all) {
  for (const int version : {1, 2})
    for (const char* width : {"0.25", "0.5", "0.75", "1.0"})
      all.push_back(entry(fmt::format("mobilenet_v{}_{}", version, width),
                          fmt::format("MobileNet v{}, {} of the channels", version, width),
                          image(3, 224), mobilenet,
                          MobileNetOptions{.version = version, .width = std::stod(width)}));
}

void add_densenets(Entries& all) {
  for (const int layers : {121, 161, 169, 201})
    all.push_back(entry(fmt::format("densenet{}", layers),
                        fmt::format("densely connected network, {} layers", layers), image(3, 224),
                        densenet, DenseNetOptions{.layers = layers}));
}

void add_text_models(Entries& all) {
  all.push_back(entry("lstm_classifier", "embedding, LSTM and a dense layer", tokens(100),
                      lstm_classifier, {}));
  all.push_back(
      entry("gpt", "decoder-only transformer that says the next token", tokens(128), gpt, {}));
  all.push_back(entry("bert", "transformer encoder with a pooler", tokens(512), bert, {}));
  all.push_back(entry("bert_masked_lm", "bert with a head that scores every token", tokens(512),
                      bert, BertOptions{.masked_lm = true}));
}

Entries entries() {
  Entries all;
  add_small(all);
  add_resnets(all, true);
  add_resnets(all, false);
  add_vggs(all);
  add_mobilenets(all);
  add_densenets(all);
  add_text_models(all);
  return all;
}

}  // namespace

std::vector<ModelInfo> model_list() {
  std::vector<ModelInfo> infos;
  for (const Entry& each : entries()) infos.push_back(each.info);
  return infos;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& each : entries()) names.push_back(each.info.name);
  return names;
}

BlockPtr make_model(std::string_view name, const ModelOptions& options) {
  std::string known;
  for (const Entry& each : entries()) {
    if (each.info.name == name) return each.make(options);
    known += (known.empty() ? "" : ", ") + each.info.name;
  }
  throw NotFound("model: there is no '{}' (there are: {})", name, known);
}

}  // namespace lockstep::nn::models
