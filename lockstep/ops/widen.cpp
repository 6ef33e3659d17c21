// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/widen.h"

#include "lockstep/ops/dispatch.h"
#include "lockstep/tensor/alignment.h"
#include "lockstep/tensor/copy.h"

namespace lockstep {
namespace {

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

Infos widen(std::span<const TensorInfo> infos) {
  Infos wide(infos.begin(), infos.end());
  for (TensorInfo& info : wide)
    if (is_half(info.dtype)) info.dtype = DType::float32;
  return wide;
}

bool has_float32_kernel(const KernelRequest& request) {
  for (const KernelCandidate& candidate : kernels_for(request))
    if (candidate.dtypes.has(DType::float32)) return true;
  return false;
}

void convert(const TensorInfo& from, std::byte* source, const TensorInfo& to, std::byte* target) {
  const Strides strides = contiguous_strides(from.shape);
  copy_strided(from.shape, {source, strides, from.dtype}, {target, strides, to.dtype});
}

class WidenedKernel final : public PreparedKernel {
 public:
  WidenedKernel(const KernelRequest& request, ChosenKernel inner, Infos inputs, Infos outputs)
      : attrs_(request.attrs),
        narrow_in_(request.inputs.begin(), request.inputs.end()),
        narrow_out_(request.outputs.begin(), request.outputs.end()),
        wide_in_(std::move(inputs)),
        wide_out_(std::move(outputs)),
        inner_(std::move(inner)) {
    name = "float32 " +
           (inner_.prepared ? inner_.prepared->name : std::string(inner_.candidate->name));
    input_layouts.resize(wide_in_.size());
    output_layouts.resize(wide_out_.size());
    scratch_bytes = inner_.prepared ? aligned(inner_.prepared->scratch_bytes) : 0;
    for (std::size_t i = 0; i < wide_in_.size(); ++i)
      if (is_half(narrow_in_[i].dtype)) scratch_bytes += aligned(wide_in_[i].bytes());
    for (std::size_t i = 0; i < wide_out_.size(); ++i)
      if (is_half(narrow_out_[i].dtype)) scratch_bytes += aligned(wide_out_[i].bytes());
  }

  void run(const KernelBuffers& buffers) const override {
    std::byte* free = buffers.scratch;
    if (inner_.prepared) free += aligned(inner_.prepared->scratch_bytes);
    std::vector<std::byte*> in(buffers.inputs.begin(), buffers.inputs.end());
    std::vector<std::byte*> out(buffers.outputs.begin(), buffers.outputs.end());
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!is_half(narrow_in_[i].dtype)) continue;
      convert(narrow_in_[i], in[i], wide_in_[i], free);
      in[i] = free;
      free += aligned(wide_in_[i].bytes());
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!is_half(narrow_out_[i].dtype)) continue;
      out[i] = free;
      free += aligned(wide_out_[i].bytes());
    }
    run_inner(in, out, buffers.scratch);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (is_half(narrow_out_[i].dtype))
        convert(wide_out_[i], out[i], narrow_out_[i], buffers.outputs[i]);
  }

 private:
  void run_inner(const std::vector<std::byte*>& in, const std::vector<std::byte*>& out,
                 std::byte* scratch) const {
    if (inner_.prepared) {
      inner_.prepared->run({in, out, scratch});
      return;
    }
    const std::vector<TensorView> inputs = views(wide_in_, in);
    const std::vector<TensorView> outputs = views(wide_out_, out);
    inner_.candidate->direct({inputs, outputs, attrs_});
  }

  static std::vector<TensorView> views(const Infos& infos, const std::vector<std::byte*>& data) {
    std::vector<TensorView> result;
    for (std::size_t i = 0; i < infos.size(); ++i)
      result.push_back(
          {data[i], infos[i].shape, contiguous_strides(infos[i].shape), infos[i].dtype});
    return result;
  }

  Attrs attrs_;
  Infos narrow_in_, narrow_out_, wide_in_, wide_out_;
  ChosenKernel inner_;
};

}  // namespace

std::unique_ptr<PreparedKernel> prepare_in_float32(const KernelRequest& request) {
  if (!has_float32_kernel(request)) return nullptr;
  Infos inputs = widen(request.inputs);
  Infos outputs = widen(request.outputs);
  const std::vector<Layout> plain(inputs.size());
  ChosenKernel inner = choose_kernel(
      {request.op, request.attrs, inputs, outputs, plain, false, request.output_unused});
  return std::make_unique<WidenedKernel>(request, std::move(inner), std::move(inputs),
                                         std::move(outputs));
}

}  // namespace lockstep
