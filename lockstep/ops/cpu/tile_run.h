// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "lockstep/ops/cpu/tile_ops.h"
#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

// The tile functions of an op with one or two inputs, indexed by single_inputs.
struct TileSet {
  explicit TileSet(std::string_view op);
  TileFn run[4];
};

// Runs them over operands of float32, float16 or bfloat16, strided and broadcast as they may be.
void run_tiles(const TileSet& tiles, const KernelCall& call, const double* params);

// An op's name as a template argument.
struct OpName {
  template <std::size_t n>
  consteval OpName(const char (&name)[n]) {
    std::copy_n(name, n, text);
  }
  char text[32] = {};
};

// The direct kernel of an op without attributes.
template <OpName op>
void run_tile_op(const KernelCall& call) {
  static const TileSet tiles(op.text);
  run_tiles(tiles, call, nullptr);
}

// The direct kernel of an op whose attributes A are all numbers.
template <OpName op, class A>
void run_tile_op_with(const KernelCall& call) {
  static const TileSet tiles(op.text);
  double params[4];
  int count = 0;
  A attrs = call.attrs.as<A>();
  attrs.visit(
      [&](const char*, auto& field, const char*) { params[count++] = static_cast<double>(field); });
  run_tiles(tiles, call, params);
}

inline constexpr DTypeSet kTileTypes{DType::float32, DType::float16, DType::bfloat16};

constexpr KernelCandidate tile_kernel(DirectKernel run) {
  return {.name = "tile", .dtypes = kTileTypes, .direct = run, .strided_inputs = true};
}

constexpr KernelCandidate loop_kernel(DirectKernel run, DTypeSet dtypes) {
  return {.name = "loop", .dtypes = dtypes, .direct = run, .strided_inputs = true};
}

}  // namespace lockstep::kernels
