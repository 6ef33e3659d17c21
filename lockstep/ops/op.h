// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/ops/kernel.h"
#include "lockstep/ops/op_docs.h"
#include "lockstep/ops/promotion.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

using Infos = std::vector<TensorInfo>;

struct InferArgs {
  const char* op;  // for messages
  std::span<const TensorInfo> inputs;
  const Attrs& attrs;
};

// The only place where inputs are checked. Throws InvalidArgument that begins with the op's name.
using InferFn = Infos (*)(const InferArgs& args);

struct GradientArgs {
  const Attrs& attrs;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> output_grads;  // undefined where nothing flows back
  std::span<const bool> needs;           // which inputs want a gradient

  bool needs_grad(std::size_t input) const { return needs[input]; }
  const Tensor& grad() const { return output_grads[0]; }
};

// One tensor for each input, undefined where there is no gradient. Written in terms of other ops,
// so that the same function serves the tape, the compiler and gradients of gradients.
using GradientFn = std::vector<Tensor> (*)(const GradientArgs& args);

// The op as a composition of simpler ones: its meaning, and its gradient where it has no gradient
// function of its own. It is never run in place of a kernel.
using DecomposeFn = std::vector<Tensor> (*)(std::span<const Tensor> inputs, const Attrs& attrs);

// A window on the input's memory.
struct ViewSpec {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // in elements, from the input's first element
};
// Nothing when these strides do not allow the view; the op's kernel copies then.
using ViewFn = std::optional<ViewSpec> (*)(const TensorInfo& input, const Strides& strides,
                                           const Attrs& attrs);

enum class OpKind : std::uint8_t {
  general,
  elementwise,  // same-shaped outputs; element i of the output needs element i of the inputs only
  view,         // eager calls return a window on input 0 where strides allow
};

struct OpDef {
  std::string_view name;
  OpDocs docs = {};
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number
  OpKind kind = OpKind::general;
  AttrSchema schema = {};
  Promotion promotion = Promotion::none;
  InferFn infer = nullptr;
  GradientFn gradient = nullptr;  // null with no decompose: gradients stop here
  DecomposeFn decompose = nullptr;
  ViewFn view = nullptr;
  bool zero_preserving = false;    // elementwise: f(0, 0, ...) = 0, so padding stays zero
  bool zero_with_singles = false;  // and does so whatever its one-element operands are
  std::span<const KernelCandidate> cpu = {};

  bool differentiable() const { return gradient != nullptr || decompose != nullptr; }
  // In order of preference; none where the op does not run on that kind of device.
  std::span<const KernelCandidate> kernels(DeviceKind kind) const {
    return kind == DeviceKind::cpu ? cpu : std::span<const KernelCandidate>();
  }
};

// The op's attributes, these fields in place of their defaults. Throws InvalidArgument that begins
// with the op's name for a field it does not have or a value of another type.
Attrs make_attrs(const OpDef& op, std::span<const AttrField> fields);

// Reading and changing one attribute by name: for code that knows an op only by its name.
// Throws InternalError when there is no such field.
AttrValue attr_field(const Attrs& attrs, std::string_view name);
Attrs with_attr(const OpDef& op, const Attrs& attrs, std::string_view name, AttrValue value);

}  // namespace lockstep
