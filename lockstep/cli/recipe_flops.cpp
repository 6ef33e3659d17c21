// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/cli/bench_step.h"

namespace lockstep::cli {
namespace {

// Forward FLOPs of a model's layers, in order.
struct Layers {
  std::vector<double> flops;
  bool first_reads_data = true;  // false: an embedding stands before it and wants a gradient

  void dense(double rows, double features, double units) {
    flops.push_back(2 * rows * features * units);
  }
  // A square kernel on a square image; `size` is the output's.
  void conv(double channels, double filters, double kernel, double size) {
    flops.push_back(2 * channels * filters * kernel * kernel * size * size);
  }
  double training() const {
    const double forward = std::accumulate(flops.begin(), flops.end(), 0.0);
    return 3 * forward - (first_reads_data ? flops.front() : 0.0);
  }
};

Layers mlp() {
  Layers model;
  model.dense(1, 784, 128);
  model.dense(1, 128, 10);
  return model;
}

Layers cnn(double channels, double size, double width) {
  Layers model;
  model.conv(channels, width, 3, size);
  model.conv(width, 2 * width, 3, size / 2);
  model.dense(1, 2 * width * size * size / 16, 128);
  model.dense(1, 128, 10);
  return model;
}

Layers resnet18() {
  Layers model;
  model.conv(3, 64, 3, 32);
  double before = 64, size = 32;
  for (const double width : {64.0, 128.0, 256.0, 512.0}) {
    if (width != before) size /= 2;
    model.conv(before, width, 3, size);
    for (int i = 0; i < 3; ++i) model.conv(width, width, 3, size);
    if (width != before) model.conv(before, width, 1, size);
    before = width;
  }
  model.dense(1, 512, 10);
  return model;
}

Layers text_lstm() {
  Layers model{.flops = {}, .first_reads_data = false};
  model.dense(100, 128 + 256, 4 * 256);
  model.dense(1, 256, 2);
  return model;
}

Layers char_gpt() {
  constexpr double kContext = 128, kWidth = 256;
  Layers model{.flops = {}, .first_reads_data = false};
  for (int block = 0; block < 4; ++block) {
    model.dense(kContext, kWidth, 3 * kWidth);
    model.dense(kContext, kWidth, kContext);  // q k^T, all heads
    model.dense(kContext, kContext, kWidth);  // scores v
    model.dense(kContext, kWidth, kWidth);
    model.dense(kContext, kWidth, 4 * kWidth);
    model.dense(kContext, 4 * kWidth, kWidth);
  }
  model.dense(kContext, kWidth, 96);
  return model;
}

}  // namespace

std::vector<std::string> recipe_names() {
  return {"mnist-mlp", "mnist-lenet", "cifar-cnn", "cifar-resnet18", "text-lstm", "char-gpt"};
}

double recipe_flops(const std::string& model) {
  if (model == "mnist-mlp") return mlp().training();
  if (model == "mnist-lenet") return cnn(1, 28, 32).training();
  if (model == "cifar-cnn") return cnn(3, 32, 64).training();
  if (model == "cifar-resnet18") return resnet18().training();
  if (model == "text-lstm") return text_lstm().training();
  if (model == "char-gpt") return char_gpt().training();
  throw NotFound("bench step: there is no model '{}'", model);
}

}  // namespace lockstep::cli
