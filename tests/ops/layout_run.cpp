// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/layout_run.h"

#include <algorithm>
#include <cstring>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/reorder.h"
#include "tests/ops/calls.h"
#include "tests/ops/guarded_buffer.h"

namespace lockstep::testing {
namespace {

void reorder(const TensorInfo& info, const Layout& from, std::byte* source, const Layout& to,
             std::byte* target) {
  const auto kernel = make_reorder(info, from, info, to);
  const GuardedBuffer scratch(kernel->scratch_bytes);
  kernel->run({std::span(&source, 1), std::span(&target, 1), scratch.data()});
}

}  // namespace

LayoutRun run_in_layouts(const OpDef& op, const std::vector<Tensor>& inputs, const Attrs& attrs,
                         const LayoutOptions& options) {
  Infos in;
  for (const Tensor& x : inputs) in.push_back(x.info());
  const Infos out = infer(op, in, attrs);
  std::vector<Layout> offered = options.offered;
  offered.resize(in.size());
  const std::unique_ptr<bool[]> unused(new bool[out.size()]());
  std::copy(options.unused.begin(), options.unused.end(), unused.get());
  KernelRequest request{op, attrs, in, out, offered, true, {unused.get(), out.size()}};
  request.allow_winograd = options.allow_winograd;
  const auto kernel = choose_kernel(request).prepared;
  if (kernel == nullptr) throw Unsupported("{}: no prepared kernel", op.name);

  LayoutRun run{
      kernel->name, kernel->input_layouts, kernel->output_layouts, kernel->scratch_bytes, {}};
  std::vector<GuardedBuffer> buffers;
  std::vector<std::byte*> from, to;
  for (std::size_t i = 0; i < in.size(); ++i) {
    buffers.emplace_back(kernel->input_layouts[i].bytes(in[i]));
    from.push_back(buffers.back().data());
    if (static_cast<int>(i) == options.mask_input)
      from.back() = inputs[i].raw();
    else
      reorder(in[i], {}, inputs[i].contiguous().raw(), kernel->input_layouts[i], from.back());
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    buffers.emplace_back(kernel->output_layouts[i].bytes(out[i]));
    to.push_back(buffers.back().data());
  }
  buffers.emplace_back(kernel->scratch_bytes);
  kernel->run({from, to, buffers.back().data()});
  for (const GuardedBuffer& buffer : buffers)
    check(buffer.intact(), "a kernel wrote outside of its buffers");
  run.outputs.resize(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (unused[i]) continue;
    run.outputs[i] = Tensor::empty(out[i].shape, out[i].dtype);
    if (static_cast<int>(i) == options.mask_output)
      std::memcpy(run.outputs[i].raw(), to[i], kernel->output_layouts[i].bytes(out[i]));
    else
      reorder(out[i], kernel->output_layouts[i], to[i], {}, run.outputs[i].raw());
  }
  return run;
}

LayoutRun run_in_layouts(std::string_view op, const std::vector<Tensor>& inputs,
                         const std::vector<AttrField>& fields, const LayoutOptions& options) {
  return run_in_layouts(get_op(op), inputs, attrs_of(op, fields), options);
}

}  // namespace lockstep::testing
