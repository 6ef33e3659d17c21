// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/nn/block.h"

// Models as blocks. Images are [N, C, H, W], tokens integers [N, T]; outputs are scores before
// softmax. Children have the names that PyTorch's models of the same kind have.
namespace lockstep::nn::models {

struct MlpOptions {
  std::vector<std::int64_t> hidden = {128};
  std::int64_t classes = 10;
  double dropout = 0.0;  // after each hidden layer
};
// Dense layers with relu between them.
BlockPtr mlp(const MlpOptions& options = {});

struct CnnOptions {
  std::int64_t width = 32;  // channels of the first convolution; the second has twice as many
  std::int64_t hidden = 128;
  std::int64_t classes = 10;
  double dropout = 0.0;  // before each dense layer
};
// Two of convolution, relu, pool; then two dense layers.
BlockPtr lenet(const CnnOptions& options = {});
// The same with twice the channels.
BlockPtr cifar_cnn(const CnnOptions& options = {.width = 64});

struct ResNetOptions {
  int layers = 18;  // 18, 34, 50, 101 or 152
  int version = 1;  // He et al., 2015; or 2, 2016: norm and relu come before each convolution
  std::int64_t classes = 1000;
  bool small_images = false;  // the CIFAR stem: 3x3, stride 1, no pool
};
// Residual networks: He et al., 2015 and 2016.
BlockPtr resnet(const ResNetOptions& options = {});
// 18 layers for images of 32 x 32.
BlockPtr cifar_resnet18(std::int64_t classes = 10);

struct VggOptions {
  int layers = 16;  // 11, 13, 16 or 19
  bool batch_norm = false;
  std::int64_t hidden = 4096;
  std::int64_t classes = 1000;
  double dropout = 0.5;
};
// Simonyan and Zisserman, 2014.
BlockPtr vgg(const VggOptions& options = {});

struct MobileNetOptions {
  int version = 2;     // or 1
  double width = 1.0;  // factor on every number of channels
  std::int64_t classes = 1000;
};
// Howard et al., 2017; Sandler et al., 2018.
BlockPtr mobilenet(const MobileNetOptions& options = {});

struct DenseNetOptions {
  int layers = 121;  // 121, 161, 169 or 201
  std::int64_t classes = 1000;
  double dropout = 0.0;  // after each layer
};
// Huang et al., 2017.
BlockPtr densenet(const DenseNetOptions& options = {});

struct LstmClassifierOptions {
  std::int64_t vocabulary = 10000;
  std::int64_t width = 128;  // of the embedding
  std::int64_t hidden = 256;
  int layers = 1;
  bool bidirectional = false;
  std::int64_t classes = 2;
  double dropout = 0.0;  // on the embedding, between layers and before the last dense layer
};
// Embedding, LSTM, and a dense layer on its last state.
BlockPtr lstm_classifier(const LstmClassifierOptions& options = {});

struct GptOptions {
  std::int64_t vocabulary = 96;
  std::int64_t context = 128;  // longest sequence
  std::int64_t width = 256;
  std::int64_t heads = 8;
  int blocks = 4;
  double dropout = 0.0;            // of what is added up: embeddings and each block's two parts
  double attention_dropout = 0.0;  // of attention's weights; above 0, attention is not fused
};
// Radford et al., 2019: scores of the next token at each position, [N, T, vocabulary].
BlockPtr gpt(const GptOptions& options = {});

struct VitOptions {
  std::int64_t image = 32;  // side of a square
  std::int64_t patch = 4;   // side of one of its squares, each of which is a token
  std::int64_t width = 192;
  std::int64_t heads = 6;
  int blocks = 6;
  std::int64_t classes = 10;
  double dropout = 0.0;  // of what is added up
};
// Dosovitskiy et al., 2020, with the mean of all patches in place of a class token.
BlockPtr vit(const VitOptions& options = {});

struct BertOptions {
  std::int64_t vocabulary = 30522;
  std::int64_t segments = 2;
  std::int64_t context = 512;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  int blocks = 12;
  double dropout = 0.1;
  bool masked_lm = false;  // with a head that scores the token of each position
};
// Devlin et al., 2018. Inputs: tokens [N, T]; segments [N, T] (without: all 0); lengths [N]
// (without: all T). Outputs: sequence [N, T, width] and pooled [N, width]; with masked_lm the
// scores [N, T, vocabulary] come first.
BlockPtr bert(const BertOptions& options = {});

// What is not given is as the model's own options have it.
struct ModelOptions {
  std::optional<std::int64_t> classes = {};     // of classifiers
  std::optional<std::int64_t> vocabulary = {};  // of models that take tokens
  std::optional<double> dropout = {};           // of models that have it
};

struct ModelInfo {
  std::string name;   // "resnet50_v1"
  std::string about;  // one line
  TensorInfo sample;  // one input of the size it was made for, without the batch's axis
};

// Families in order of size; names within a family too.
std::vector<ModelInfo> model_list();
std::vector<std::string> model_names();
// By name, "resnet50_v1". Throws NotFound with the names there are.
BlockPtr make_model(std::string_view name, const ModelOptions& options = {});

}  // namespace lockstep::nn::models
