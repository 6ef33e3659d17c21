// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/op.h"

namespace lockstep::testing {

// An op run as the compiler runs it: the kernel chooses layouts, and reorders stand before and
// after it.
struct LayoutRun {
  std::string kernel;
  std::vector<Layout> input_layouts, output_layouts;
  std::size_t scratch_bytes = 0;
  std::vector<Tensor> outputs;  // plain; undefined where unused
};
struct LayoutOptions {
  std::vector<Layout> offered = {};  // plain where it is short
  std::vector<char> unused = {};     // which outputs nobody reads
  int mask_input = -1;               // an input that is in its kernel's layout already
  int mask_output = -1;              // an output that is to stay in its kernel's layout
  bool allow_winograd = true;
};
LayoutRun run_in_layouts(const OpDef& op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                         const LayoutOptions& options = {});
// The op by name, with the attributes that are given and the others' defaults.
LayoutRun run_in_layouts(std::string_view op, const std::vector<Tensor>& inputs,
                         const std::vector<AttrField>& fields, const LayoutOptions& options = {});

}  // namespace lockstep::testing
