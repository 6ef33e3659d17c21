// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/op.h"
#include "lockstep/tensor/copy.h"

namespace lockstep {

// The window that a view op takes of a dense input, where it is one: what the compiler asks to make
// the output an alias.
inline std::optional<ViewSpec> view_of_dense(const OpDef& op, const TensorInfo& input,
                                             const Attrs& attrs) {
  if (op.kind != OpKind::view || op.view == nullptr) return std::nullopt;
  return op.view(input, contiguous_strides(input.shape), attrs);
}

// The kernel of a view op: copies the window. Serves ops whose view is always possible.
template <ViewFn view>
void copy_view(const KernelCall& call) {
  const TensorView& in = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const auto spec = view({in.shape, in.dtype, {}}, in.strides, call.attrs);
  check(spec.has_value(), "this op's view is always possible");
  std::byte* first = in.data + spec->offset * static_cast<std::int64_t>(item_size(in.dtype));
  copy_strided(spec->shape, {first, spec->strides, in.dtype}, {out.data, out.strides, out.dtype});
}

}  // namespace lockstep
