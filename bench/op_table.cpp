// SPDX-License-Identifier: Apache-2.0
#include "bench/op_table.h"

#include <fmt/ranges.h>

#include "lockstep/ops/ops.h"

namespace lockstep::bench {
namespace {

using Inputs = std::vector<Tensor>;

template <class F>
TensorFunction one(F function) {
  return [function](const Inputs& in) { return std::vector<Tensor>{function(in)}; };
}

TensorFunction unary(Tensor (*function)(const Tensor&)) {
  return one([function](const Inputs& in) { return function(in[0]); });
}

void add_elementwise(std::vector<OpBench>& table) {
  const Operand tiny{{16}}, square{{1024, 1024}}, row{{1024}};
  const auto add = one([](const Inputs& in) { return in[0] + in[1]; });
  table.push_back({"add", {tiny, tiny}, add});
  table.push_back({"add", {square, square}, add});
  table.push_back({"add", {square, row}, add});
  table.push_back({"exp", {square}, unary(lockstep::exp)});
  table.push_back({"tanh", {square}, unary(lockstep::tanh)});
  table.push_back({"sigmoid", {square}, unary(lockstep::sigmoid)});
  table.push_back({"relu", {square}, unary(lockstep::relu)});
  table.push_back({"gelu", {square}, one([](const Inputs& in) { return gelu(in[0], true); })});
  // What a compiler fuses into one loop.
  table.push_back({"chain", {square, square}, one([](const Inputs& in) {
                     return sigmoid(in[0] * in[1] + 1.0) * in[0] - in[1];
                   })});
}

void add_reductions(std::vector<OpBench>& table) {
  const Operand square{{1024, 1024}};
  table.push_back({"sum", {square}, one([](const Inputs& in) { return sum(in[0]); })});
  table.push_back({"sum_rows", {square}, one([](const Inputs& in) { return sum(in[0], {1}); })});
  table.push_back({"sum_columns", {square}, one([](const Inputs& in) { return sum(in[0], {0}); })});
  table.push_back({"max_rows", {square}, one([](const Inputs& in) { return max(in[0], {1}); })});
  table.push_back({"argmax", {square}, one([](const Inputs& in) { return argmax(in[0]); })});
  table.push_back({"cumsum", {square}, one([](const Inputs& in) { return cumsum(in[0]); })});
  table.push_back(
      {"softmax", {{{1024, 1000}}}, one([](const Inputs& in) { return softmax(in[0]); })});
}

void add_products(std::vector<OpBench>& table) {
  const auto product = one([](const Inputs& in) { return matmul(in[0], in[1]); });
  table.push_back({"matmul", {{{512, 512}}, {{512, 512}}}, product});
  table.push_back({"matmul", {{{64, 128, 32}}, {{64, 32, 128}}}, product});
  table.push_back({"dense", {{{128, 784}}, {{128, 784}}, {{128}}}, one([](const Inputs& in) {
                     return dense(in[0], in[1], in[2]);
                   })});
  const auto padded = [](std::int64_t groups) {
    return one([groups](const Inputs& in) {
      return conv(in[0], in[1], {}, {.padding = {1}, .groups = groups});
    });
  };
  table.push_back({"conv", {{{32, 3, 32, 32}}, {{64, 3, 3, 3}}}, padded(1)});
  table.push_back({"conv", {{{32, 64, 16, 16}}, {{128, 64, 3, 3}}}, padded(1)});
  table.push_back({"depthwise", {{{8, 64, 32, 32}}, {{64, 1, 3, 3}}}, padded(64)});
  table.push_back({"attention",
                   {{{8, 8, 128, 32}}, {{8, 8, 128, 32}}, {{8, 8, 128, 32}}},
                   one([](const Inputs& in) {
                     return scaled_dot_product_attention(in[0], in[1], in[2], {}, true);
                   })});
}

void add_layers(std::vector<OpBench>& table) {
  table.push_back({"max_pool", {{{32, 64, 32, 32}}}, one([](const Inputs& in) {
                     return max_pool(in[0], {.kernel = {2}});
                   })});
  table.push_back({"batch_norm", {{{32, 64, 32, 32}}, {{64}}, {{64}}}, one([](const Inputs& in) {
                     return batch_norm(in[0], in[1], in[2]).y;
                   })});
  table.push_back({"layer_norm", {{{1024, 256}}, {{256}}, {{256}}}, one([](const Inputs& in) {
                     return layer_norm(in[0], in[1], in[2]);
                   })});
  table.push_back({"cross_entropy", {{{1024, 1000}}, {{1024}, 1000}}, one([](const Inputs& in) {
                     return mean(softmax_cross_entropy(in[0], in[1]));
                   })});
  table.push_back({"embedding", {{{32, 100}, 10000}, {{10000, 128}}}, one([](const Inputs& in) {
                     return embedding(in[0], in[1]);
                   })});
  table.push_back({"lstm",
                   {{{100, 32, 128}}, {{1024, 128}}, {{1024, 256}}, {{1024}}, {{1024}}},
                   one([](const Inputs& in) {
                     return rnn(in[0], {{in[1], in[2], in[3], in[4]}}, {.mode = "lstm"}).hidden;
                   })});
}

// The peer knows an equation by the name that stands before it.
void add_einsums(std::vector<OpBench>& table) {
  const auto add = [&](const char* op, const char* equation, std::vector<Operand> operands) {
    table.push_back({op, std::move(operands),
                     one([equation](const Inputs& in) { return einsum(equation, in); })});
  };
  add("einsum_batched", "bij,bjk->bik", {{{32, 64, 64}}, {{32, 64, 64}}});
  add("einsum_scores", "bqhd,bkhd->bhqk", {{{8, 128, 8, 32}}, {{8, 128, 8, 32}}});
  add("einsum_mixed", "bhqk,bkhd->bqhd", {{{8, 8, 128, 128}}, {{8, 128, 8, 32}}});
  add("einsum_vector", "ij,j->i", {{{1024, 1024}}, {{1024}}});
}

// Images as decoders and detectors meet them, and the uneven windows of AlexNet's adaptive pool.
void add_images(std::vector<OpBench>& table) {
  const auto resized = [](const char* mode, const Ints& size) {
    return one([mode, size](const Inputs& in) { return interpolate(in[0], size, {mode}); });
  };
  for (const auto& [shape, size] : {std::pair<Shape, Ints>{{8, 64, 32, 32}, {64, 64}},
                                    {{1, 21, 65, 65}, {513, 513}},
                                    {{2, 256, 14, 14}, {28, 28}}}) {
    table.push_back({fmt::format("nearest_{}", size[0]), {{shape}}, resized("nearest", size)});
    table.push_back({fmt::format("bilinear_{}", size[0]), {{shape}}, resized("linear", size)});
  }
  for (const Shape& shape : {Shape{8, 64, 32, 32}, {1, 512, 28, 28}, {2, 32, 112, 112}})
    table.push_back({"dilated_pool", {{shape}}, one([](const Inputs& in) {
                       return max_pool(
                           in[0], {.kernel = {3}, .stride = {1}, .padding = {1}, .dilation = {2}});
                     })});
  for (const Shape& shape : {Shape{32, 256, 13, 13}, {8, 64, 55, 55}, {4, 512, 20, 15}}) {
    table.push_back({"adaptive_avg_6", {{shape}}, one([](const Inputs& in) {
                       return adaptive_avg_pool(in[0], {6});
                     })});
    table.push_back({"adaptive_max_6", {{shape}}, one([](const Inputs& in) {
                       return adaptive_max_pool(in[0], {6});
                     })});
  }
  table.push_back({"grid_sample", {{{4, 32, 64, 64}}, {{4, 64, 64, 2}}}, one([](const Inputs& in) {
                     return grid_sample(in[0], in[1] * 2.0);
                   })});
}

// Sequences of 1 to T steps.
void add_sequences(std::vector<OpBench>& table) {
  struct Sizes {
    std::int64_t steps, batch, inputs, hidden;
  };
  for (const auto& [steps, batch, inputs, hidden] :
       {Sizes{100, 32, 128, 256}, {40, 64, 300, 128}, {200, 8, 64, 64}}) {
    table.push_back({"ragged_lstm",
                     {{{steps, batch, inputs}},
                      {{4 * hidden, inputs}},
                      {{4 * hidden, hidden}},
                      {{4 * hidden}},
                      {{4 * hidden}},
                      {{batch}, steps}},
                     one([](const Inputs& in) {
                       return rnn(in[0], {{in[1], in[2], in[3], in[4]}}, {.mode = "lstm"}, {}, {},
                                  in[5] + 1.0)
                           .y;
                     })});
  }
}

void add_movement(std::vector<OpBench>& table) {
  const Operand square{{1024, 1024}};
  table.push_back({"transpose_add", {square, square}, one([](const Inputs& in) {
                     return transpose(in[0]) + in[1];
                   })});
  table.push_back({"concat", {square, square}, one([](const Inputs& in) {
                     return concat({in[0], in[1]}, 1);
                   })});
  const Operand places{{1024, 1024}, 1024};
  table.push_back({"scatter", {square, places, square}, one([](const Inputs& in) {
                     return scatter(in[0], in[1], in[2], 1);
                   })});
  table.push_back({"scatter_add", {square, places, square}, one([](const Inputs& in) {
                     return scatter_add(in[0], in[1], in[2], 1);
                   })});
  table.push_back({"sort", {square}, one([](const Inputs& in) { return sort(in[0]); })});
  table.push_back({"topk", {square}, one([](const Inputs& in) { return topk(in[0], 10).first; })});
}

}  // namespace

std::string OpBench::str() const {
  std::string text = op;
  for (const Operand& operand : operands)
    text += fmt::format(" {}:{}", operand.classes == 0 ? "f" : fmt::format("i{}", operand.classes),
                        fmt::join(operand.shape.span(), ","));
  return text;
}

std::vector<OpBench> op_benches() {
  std::vector<OpBench> table;
  add_elementwise(table);
  add_reductions(table);
  add_products(table);
  add_einsums(table);
  add_layers(table);
  add_images(table);
  add_sequences(table);
  add_movement(table);
  return table;
}

Tensor make_operand(const Operand& operand, std::uint32_t place) {
  const auto count = static_cast<std::size_t>(operand.shape.numel());
  std::vector<float> floats(count);
  std::vector<std::int64_t> classes(operand.classes == 0 ? 0 : count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t hash = (static_cast<std::uint32_t>(i) + 1 + place) * 2654435761U;
    floats[i] = static_cast<float>(hash >> 8) * 0x1p-24F - 0.5F;
    if (operand.classes != 0) classes[i] = (hash >> 8) % operand.classes;
  }
  if (operand.classes != 0) return Tensor::from(classes, operand.shape);
  return Tensor::from(floats, operand.shape);
}

}  // namespace lockstep::bench
